"""OpenVINO GenAI's continuous batching, in a worker process of its own: its `step()` holds the GIL.

It runs the very graph and weights that our engine runs, saved as IR before the paged-attention transformation, which
it applies itself; its own GGUF reader loses quality. Its best settings were looked for by hand, see README.md.
"""

import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import openvino

from benchmarks.engine.pipe_client import PipeEndpoint, pipe_endpoint
from benchmarks.engine.plan import KINDS
from benchmarks.engine.work import WORK, PeerUnavailableError, python_with
from forebay.engine.runtime.decoder_graph import build_decoder
from forebay.modelfiles.model import ModelFiles

_REQUIREMENTS = ("openvino-genai==2026.4.1.0", "openvino==2026.4.1")
_FOLDER = WORK / "genai"
_WORKER = Path(__file__).parents[1] / "workers" / "genai.py"
_START_TIMEOUT_S = 300


class GenAI:
    """The precision of its KV cache is its own choice."""

    name = "genai"
    loads = frozenset(KINDS)

    def __init__(self, model: ModelFiles, *, kv_cache_gb: int, threads: int) -> None:
        self._model = model
        self._scheduler: dict[str, object] = {
            "cache_size": kv_cache_gb,
            "dynamic_split_fuse": True,
            "max_num_batched_tokens": 2048,
            "enable_prefix_caching": True,
        }
        self._properties: dict[str, object] = {
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,
            "INFERENCE_NUM_THREADS": threads,
        }

    def prepare(self) -> dict[str, str]:
        self._python()
        graph = self._graph()
        return {
            "version": _REQUIREMENTS[0],
            "weights": f"the IR that forebay runs, {graph.with_suffix('.bin').stat().st_size / 1e6:.0f} MB",
            "settings": _words(self._scheduler | self._properties),
        }

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[PipeEndpoint, None]:
        settings = {
            "model": str(self._graph().parent),
            "tokenizer": str(self._model.path),
            "scheduler": self._scheduler,
            "properties": self._properties,
        }
        command = [str(self._python()), str(_WORKER), msgspec.json.encode(settings).decode()]
        log = WORK / "logs" / f"{self.name}.log"
        async with pipe_endpoint(command, log=log, start_timeout_s=_START_TIMEOUT_S) as endpoint:
            yield endpoint

    @staticmethod
    def _python() -> Path:
        return python_with("genai", _REQUIREMENTS, timeout_s=900)

    def _graph(self) -> Path:
        """The IR's xml, written when it is not there."""
        graph = _FOLDER / "ir" / "openvino_model.xml"
        if not graph.exists():
            if self._model.config is None or self._model.weights is None:
                raise PeerUnavailableError(f"{self._model.path} is a graph already; give a GGUF file")
            half_made = _FOLDER / "ir.part"
            shutil.rmtree(half_made, ignore_errors=True)
            half_made.mkdir(parents=True)
            decoder = build_decoder(self._model.config, self._model.weights)
            openvino.save_model(decoder, half_made / graph.name, compress_to_fp16=False)
            half_made.rename(graph.parent)
        return graph


def _words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
