"""The output of a child process: kept whole in a bounded file, and its end in memory."""

from collections import deque
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

logger = structlog.get_logger(__name__)

TAIL_LINES = 15
MAX_LINE_BYTES = 2000


class ProcessLog:
    """Appends to `path`, which moves to `path` + `.1` (replacing the older one) when it passes `max_bytes`.

    What the disk does not take is lost to the file, nothing else: the tail has it all the same, nothing is raised, and
    the file is opened again for what comes next.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._file: FileIO | None = None
        self._told = False
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._partial = b""

    def write(self, chunk: bytes) -> None:
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        self._lines.extend(line[:MAX_LINE_BYTES] for line in lines if line.strip())
        self._partial = self._partial[:MAX_LINE_BYTES]
        try:
            self._append(chunk)
            self._told = False
        except OSError as error:
            self.close()
            if not self._told:
                logger.warning("a log cannot be written", log_file=str(self.path), reason=error.strerror)
            self._told = True

    def tail(self) -> tuple[str, ...]:
        """The last lines."""
        lines = [*self._lines, self._partial] if self._partial.strip() else list(self._lines)
        return tuple(line.decode(errors="replace").rstrip() for line in lines[-TAIL_LINES:])

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # Some disks tell only now what they did not take.
            with suppress(OSError):
                file.close()

    def _append(self, chunk: bytes) -> None:
        file = self._file or self._open()
        if file.tell() + len(chunk) > self._max_bytes:
            self.close()
            self.path.replace(self.path.with_name(self.path.name + ".1"))
            file = self._open()
        file.write(chunk)

    def _open(self) -> FileIO:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what could not be written must not come up again when the file is closed.
        self._file = self.path.open("ab", buffering=0)
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
