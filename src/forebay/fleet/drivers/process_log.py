"""The output of a child process: kept whole in a bounded file, and its end in memory."""

from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

TAIL_LINES = 15
MAX_LINE_BYTES = 2000


class ProcessLog:
    """Appends to `path`, which moves to `path` + `.1` (replacing the older one) when it passes `max_bytes`."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._partial = b""

    def write(self, chunk: bytes) -> None:
        """Raises OSError where the disk does not take it; the tail has it all the same."""
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        self._lines.extend(line[:MAX_LINE_BYTES] for line in lines if line.strip())
        self._partial = self._partial[:MAX_LINE_BYTES]
        if self._file.tell() + len(chunk) > self._max_bytes:
            self._rotate()
        self._file.write(chunk)
        self._file.flush()

    def tail(self) -> str:
        """The last lines."""
        lines = [*self._lines, self._partial] if self._partial.strip() else list(self._lines)
        return "\n".join(line.decode(errors="replace").rstrip() for line in lines[-TAIL_LINES:])

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        self.path.replace(self.path.with_name(self.path.name + ".1"))
        self._file = self.path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
