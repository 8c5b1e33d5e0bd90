"""What the numbers were measured on."""

import os
import platform
from pathlib import Path

_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
LOAD = "load average at start"
"""The fact that says whether the machine was quiet."""
QUIET_LOAD = 0.5
"""One-minute load average above which the numbers are called disturbed."""


def machine_facts() -> dict[str, str]:
    """Name to value, for people."""
    cpu = _cpu_fields()
    flags = cpu_flags()
    return {
        "CPU": cpu.get("model name") or platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "instruction sets": ", ".join(f"{flag}: {'yes' if flag in flags else 'no'}" for flag in _FLAGS),
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        LOAD: f"{os.getloadavg()[0]:.2f}",
    }


def cpu_flags() -> frozenset[str]:
    """The processor's flags as Linux names them; empty elsewhere."""
    return frozenset(_cpu_fields().get("flags", "").split())


def _cpu_fields() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; empty where there is none."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    lines = path.read_text().split("\n\n", 1)[0].splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
