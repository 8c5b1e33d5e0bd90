"""All peers by name."""

import os
from collections.abc import Iterable, Sequence

from benchmarks.engine.peers.base import Peer
from benchmarks.engine.peers.genai import GenAI
from benchmarks.engine.peers.llama_cpp import LlamaCpp
from benchmarks.engine.peers.ours import Forebay, ForebayInProcess
from benchmarks.engine.peers.vllm_cpu import VllmCpu
from benchmarks.engine.plan import KINDS, Kind
from forebay.modelfiles.model import ModelFiles

SLOTS = 32
KV_CACHE_GB = 2
OPTIONAL = frozenset({"vllm-cpu"})
"""Measured only when asked for."""


_THROUGHPUT: Sequence[Kind] = ("throughput",)
"""One weight format is enough for the loads in which formats do not differ much."""


def all_peers(source: str, model: ModelFiles) -> dict[str, Peer]:
    """In the order in which they take turns. Each may use every core, and has slots and cache for 32 streams."""
    threads = os.cpu_count() or 1
    peers: Iterable[Peer] = (
        Forebay(source, slots=SLOTS, kv_cache_gb=KV_CACHE_GB),
        ForebayInProcess(source, slots=SLOTS, kv_cache_gb=KV_CACHE_GB),
        GenAI(model, kv_cache_gb=KV_CACHE_GB, threads=threads),
        LlamaCpp(model.path, "Q4_1", slots=SLOTS, threads=threads, loads=_THROUGHPUT),
        LlamaCpp(model.path, "Q4_0", slots=SLOTS, threads=threads, loads=KINDS),
        LlamaCpp(model.path, "Q8_0", slots=SLOTS, threads=threads, loads=_THROUGHPUT),
        LlamaCpp(model.path, "F16", slots=SLOTS, threads=threads, loads=_THROUGHPUT),
        VllmCpu(model, slots=SLOTS, kv_cache_gb=KV_CACHE_GB),
    )
    return {peer.name: peer for peer in peers}
