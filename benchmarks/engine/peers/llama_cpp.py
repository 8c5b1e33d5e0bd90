"""llama.cpp's server, built for this machine from the sources inside `llama-cpp-python`'s sdist.

Its best mode was looked for by hand, see README.md: one KV stream for each sequence rather than the unified cache,
flash attention, large micro-batches, a slot for each stream, no second prompt cache in RAM, and top-k 1 as the only
sampler.
"""

import os
import shutil
import tarfile
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from benchmarks.engine.http_client import HttpEndpoint, http_endpoint
from benchmarks.engine.plan import Kind
from benchmarks.engine.ports import free_port
from benchmarks.engine.processes import GuardedProcess, wait_healthy
from benchmarks.engine.work import WORK, PeerUnavailableError, pip_download, python_with, run_step

SDIST = "llama-cpp-python==0.3.36"
WeightFormat = Literal["Q4_1", "Q4_0", "Q8_0", "F16"]

_FOLDER = WORK / "llama_cpp"
_BUILD_TIMEOUT_S = 3600
_START_TIMEOUT_S = 120
_CONTEXT_PER_SLOT = 2048
_CMAKE_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=ON", "-DGGML_OPENMP=ON",
    "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
)  # fmt: skip


class LlamaCpp:
    """One weight format. `source` is the GGUF that the others are made from."""

    def __init__(self, source: Path, weights: WeightFormat, *, slots: int, threads: int, loads: Iterable[Kind]) -> None:
        self.name = f"llama.cpp-{weights.lower()}"
        self.loads = frozenset(loads)
        self._source = source
        self._weights: WeightFormat = weights
        self._slots = slots
        self._threads = threads

    def prepare(self) -> dict[str, str]:
        build_programs()
        model = self._model()
        return {
            "version": SDIST,
            "weights": f"{self._weights}, {model.stat().st_size / 1e6:.0f} MB",
            "settings": " ".join(self._options()),
        }

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[HttpEndpoint, None]:
        port = free_port()
        command = [str(_program("llama-server")), "-m", str(self._model()), "--port", str(port), *self._options()]
        log = WORK / "logs" / f"{self.name}.log"
        # Threads that spin between steps starve everything else on a small machine.
        process = await GuardedProcess.start(command, log=log, env={"OMP_WAIT_POLICY": "PASSIVE"})
        try:
            url = f"http://127.0.0.1:{port}"
            await wait_healthy(process, f"{url}/health", _START_TIMEOUT_S)
            async with http_endpoint(url, self.name, {"samplers": ["top_k"], "top_k": 1}) as endpoint:
                yield endpoint
        finally:
            await process.stop()

    def _options(self) -> list[str]:
        return [
            "-c", str(self._slots * _CONTEXT_PER_SLOT), "-np", str(self._slots), "--no-kv-unified",
            "-t", str(self._threads), "-fa", "on", "-ub", "2048", "--cache-ram", "0",
            "--host", "127.0.0.1", "--log-verbosity", "1",
        ]  # fmt: skip

    def _model(self) -> Path:
        """The GGUF in this peer's format, made where the source has another."""
        if self._weights == "Q4_1":
            return self._source
        model = _FOLDER / f"model-{self._weights}.gguf"
        if not model.exists():
            half_made = model.with_suffix(".part")
            command = [_program("llama-quantize"), "--allow-requantize", self._source, half_made, self._weights]
            log = WORK / "logs" / f"quantize-{self._weights}.log"
            run_step(command, what=f"make {model.name}", log=log, timeout_s=600)
            half_made.rename(model)
        return model


def build_programs() -> None:
    """`llama-server` and `llama-quantize`: about ten CPU-minutes, once."""
    if _program("llama-server").exists() and _program("llama-quantize").exists():
        return
    if shutil.which("c++") is None and shutil.which("g++") is None:
        raise PeerUnavailableError("it is built from source and this machine has no C++ compiler (Debian: g++)")
    source = _unpacked_source()
    cmake = shutil.which("cmake") or str(python_with("cmake", ["cmake"], timeout_s=600).with_name("cmake"))
    build = _FOLDER / "build"
    logs = WORK / "logs"
    configure = [cmake, "-S", source, "-B", build, *_CMAKE_OPTIONS]
    run_step(configure, what="configure llama.cpp", log=logs / "llama-configure.log", timeout_s=300)
    compile_ = [cmake, "--build", build, "--target", "llama-server", "llama-quantize", "-j", str(os.cpu_count() or 1)]
    what = "build llama.cpp, about ten CPU-minutes"
    run_step(compile_, what=what, log=logs / "llama-build.log", timeout_s=_BUILD_TIMEOUT_S)


def _program(name: str) -> Path:
    return _FOLDER / "build" / "bin" / name


def _unpacked_source() -> Path:
    target = _FOLDER / "src"
    if target.exists():
        return target
    sdist = pip_download(
        SDIST, _FOLDER / "sdist", "--no-binary", "llama-cpp-python", log=WORK / "logs" / "llama-sdist.log"
    )
    unpacked = _FOLDER / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        wanted = [m for m in archive.getmembers() if "/vendor/llama.cpp/" in m.name and "/.git/" not in m.name]
        archive.extractall(unpacked, members=wanted, filter="data")
    next(unpacked.glob("*/vendor/llama.cpp")).rename(target)
    shutil.rmtree(unpacked)
    sdist.unlink()
    return target
