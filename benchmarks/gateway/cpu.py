"""CPU time of other processes, as Linux counts it."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT, _UTIME, _CSTIME = 1, 11, 14
"""Places in /proc/PID/stat after the command's name; user and system time, own and of ended children, lie between."""


def cpu_seconds(pid: int) -> float:
    """What `pid` and all that descends from it have used since they began."""
    stats = _all_stats()
    family = {pid}
    # A child's id may be smaller than its parent's, so once through is not enough.
    while more := {child for child, fields in stats.items() if int(fields[_PARENT]) in family} - family:
        family |= more
    ticks = sum(int(value) for one in family if one in stats for value in stats[one][_UTIME : _CSTIME + 1])
    return ticks / _TICKS_PER_S


def _all_stats() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            # The name stands in brackets and may itself hold spaces and brackets.
            found[int(folder.name)] = text.rpartition(")")[2].split()
    return found
