"""One model behind one engine, as its routes see it."""

import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from forebay.core.clock import Clock, SystemClock
from forebay.core.errors import ModelNotFound
from forebay.engine.request import GenerationRequest, GenerationUpdate
from forebay.engine.service import AsyncEngine
from forebay.modelfiles.model import ModelFiles
from forebay.prompting.prompts import Prompts
from forebay.replica.choices import ChoiceUpdates, merged
from forebay.replica.dialects.dialect import ChatDialect
from forebay.replica.metrics import ReplicaMetrics
from forebay.replica.request_usage import RequestUsage
from forebay.replica.settings import ReplicaSettings
from forebay.replica.usage_book import UsageBook
from forebay.replica.vocabulary import Vocabulary


class ReplicaService:
    """Joins an engine, its model's files and the settings. Owns the metrics, the book of usage, and whether the replica
    is draining.
    """

    def __init__(
        self, engine: AsyncEngine, model: ModelFiles, settings: ReplicaSettings, clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.model_name = settings.served_model_name or model.name
        self.root_name = model.name
        self.created = int(time.time())
        self.vocabulary = Vocabulary(model)
        self.prompts = Prompts(model, self.vocabulary, engine.max_model_len)
        self.dialect = ChatDialect(model)
        self.usage_book = UsageBook(self.clock)
        self.metrics = ReplicaMetrics(self.model_name, engine.stats, self.clock)
        self._engine = engine
        self._draining = False

    @property
    def max_model_len(self) -> int:
        """Prompt plus output tokens that one request may have."""
        return self._engine.max_model_len

    @property
    def status(self) -> str:
        """`ready`, `draining` or `failed`."""
        if not self._engine.healthy:
            return "failed"
        return "draining" if self._draining else "ready"

    def require_model(self, name: str) -> None:
        """Raises ModelNotFound for any name but the served one."""
        if name != self.model_name:
            raise ModelNotFound(
                f"The model {name[:200]!r} is not served here; this replica serves {self.model_name!r}.", param="model"
            )

    def generate_all(
        self, groups: Sequence[Sequence[GenerationRequest]], arrived: float, usage: RequestUsage
    ) -> ChoiceUpdates:
        """Run the generations of one request, grouped by prompt, as `choices.merged` says. It arrived at the clock's
        `arrived`, and its `usage` is counted. To be closed by whoever reads it.
        """

        def generate(request: GenerationRequest, *, first: bool) -> AsyncGenerator[GenerationUpdate, None]:
            return self.metrics.watch(self._engine.generate(request, usage.meter(counts_prompt=first)), arrived)

        return merged(
            [[partial(generate, request, first=at == 0) for at, request in enumerate(group)] for group in groups]
        )

    async def drain(self) -> None:
        """Take nothing new, let what runs finish within the settings' time, end the rest with CapacityUnavailable."""
        self._draining = True
        await self._engine.drain(self.settings.drain_timeout_s)
        stats = self._engine.stats()
        if stats.running or stats.waiting:
            self._engine.close()
