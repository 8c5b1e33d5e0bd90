"""One file of the local usage log."""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from forebay.storage.objects.durable import sync_directory

SUFFIX = ".log"
_sync_data = os.fsync if sys.platform in {"darwin", "win32"} else os.fdatasync


class Segment:
    """A file that is appended to by this process alone. Its stem is unique in the world, and its files in the warehouse
    are named by it.

    After an error `broken` says that nothing more may be written here.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = 0
        self.broken = False
        self._descriptor = descriptor

    @staticmethod
    def create(directory: Path, number: int) -> "Segment":
        """A new one, whose name survives a loss of power. Raises OSError."""
        path = directory / f"{number:08}-{secrets.token_hex(8)}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            sync_directory(directory)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                path.unlink()
            raise
        return Segment(path, descriptor)

    def append(self, data: bytes) -> None:
        """All of it or nothing. Raises OSError."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            self._cut_back()
            raise
        self.size += written

    def sync(self) -> None:
        """Returns when what was appended before would survive a loss of power. Raises OSError: it may be lost then, and
        asking again would not tell.
        """
        try:
            _sync_data(self._descriptor)
        except OSError:
            self.broken = True
            raise

    def close(self) -> None:
        os.close(self._descriptor)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            # Half a line stays at the end; another one after it would be lost with it.
            self.broken = True
