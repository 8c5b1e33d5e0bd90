"""Whether some text lies anywhere in a directory, however it is packed there."""

import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

WINDOW = 8
"""Characters of a canary that are enough to know it by: a line that was cut must not hide the rest."""
PASSES = 50


def holds(data: bytes, canary: str) -> bool:
    """Whether any part of `canary` is in it."""
    lowered = data.lower()
    parts = {canary[start : start + WINDOW].lower().encode() for start in range(len(canary) - WINDOW + 1)}
    return any(part in lowered for part in parts)


def readable(path: Path) -> bytes:
    """A file's bytes, and of Parquet, which is compressed, the rows as text."""
    data = path.read_bytes()
    if path.suffix != ".parquet":
        return data
    with duckdb.connect(":memory:") as database:
        rows = database.execute("select * from read_parquet(?)", [str(path)]).fetchall()
        schema = database.execute("select * from parquet_kv_metadata(?)", [str(path)]).fetchall()
    return data + repr((rows, schema)).encode()


def files_below(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.is_file())


def where(root: Path, text: str) -> set[str]:
    """The files that hold it, in their bytes or their names; below `root`, which itself does not count.

    A file that moves meanwhile could be missed in both places, so all is read again then.
    """
    for _ in range(PASSES):
        try:
            return {name for name, data in _named(root) if holds(data, text) or holds(name.encode(), text)}
        except (FileNotFoundError, duckdb.IOException):
            time.sleep(0.1)
    raise AssertionError(f"files move below {root} faster than they can be read")


def _named(root: Path) -> Iterator[tuple[str, bytes]]:
    return ((path.relative_to(root).as_posix(), readable(path)) for path in files_below(root))
