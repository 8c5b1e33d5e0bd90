"""What counts the prompts of each pool."""

import asyncio
import os
from collections.abc import Iterator, Mapping

import structlog

from forebay.config.loading import LoadedConfig
from forebay.core.errors import ForebayError
from forebay.fleet.settings import PoolSettings
from forebay.modelfiles.loading import load
from forebay.prompting.counting import PromptCounter
from forebay.prompting.estimated_counter import EstimatedPromptCounter
from forebay.prompting.model_counter import ModelPromptCounter
from forebay.wiring.pools import takes_our_fields

logger = structlog.get_logger(__name__)


class PromptCounters(Mapping[str, PromptCounter]):
    """Pool → its counter, as far as they are loaded."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self._loaded = loaded
        self._counters: dict[str, PromptCounter] = {}

    async def load(self) -> None:
        """Read the tokenizers. The models must be in the cache. A pool whose model cannot be read gets estimates:
        whether it can be served at all its replicas tell.
        """
        # A prompt is cut by the thread that asks; the library's own pool would only add hand-overs.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        for name, pool in self._loaded.config.pools.items():
            try:
                self._counters[name] = await asyncio.to_thread(self._counter, pool)
            except ForebayError as error:
                logger.warning("prompts are estimated", pool=name, detail=error.detail)
                self._counters[name] = EstimatedPromptCounter()

    def _counter(self, pool: PoolSettings) -> PromptCounter:
        source = pool.model or pool.tokenizer
        if source is None:
            return EstimatedPromptCounter()
        files = load(source, self._loaded.cache_dir)
        return ModelPromptCounter(files, pool.engine_settings.max_model_len, lenient=not takes_our_fields(pool))

    def __getitem__(self, pool: str) -> PromptCounter:
        return self._counters[pool]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counters)

    def __len__(self) -> int:
        return len(self._counters)
