"""Which directory of the local usage log belongs to which process: `1`, `2`, … below one root, each with a lock.

A lock falls with its process, however that ends; what a dead one has left, a live one takes over as a whole. The root
must be on a local disk.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from forebay.core.file_lock import try_lock

LOCK = "lock"
MOST_SLOTS = 1024


class Slot:
    """A directory that is this process's own until `release`."""

    def __init__(self, directory: Path, lock: int) -> None:
        self.directory = directory
        self._lock = lock

    def release(self) -> None:
        os.close(self._lock)


def claim(root: Path) -> Slot:
    """The first directory that is nobody's. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in range(1, MOST_SLOTS + 1):
        directory = root / str(number)
        directory.mkdir(exist_ok=True, mode=0o700)
        if (slot := _try(directory)) is not None:
            return slot
    raise OSError(f"all {MOST_SLOTS} directories below {root} are in use")


def adopt(root: Path, own: Slot) -> list[Path]:
    """Move what dead processes have left into the directory of `own`: where it is now. Raises OSError."""
    adopted: list[Path] = []
    for directory in sorted(root.iterdir()):
        if directory == own.directory or not directory.name.isdecimal():
            continue
        if (slot := _try(directory)) is None:
            continue
        try:
            target = own.directory / f"from-{directory.name}-{secrets.token_hex(4)}"
            directory.rename(target)
            adopted.append(target)
            (target / LOCK).unlink()
        finally:
            slot.release()
    return adopted


def forget(directory: Path, own: Slot) -> None:
    """Remove a directory that was taken over once nothing is left in it."""
    while directory != own.directory and own.directory in directory.parents:
        with suppress(OSError):
            directory.rmdir()
        directory = directory.parent


def _try(directory: Path) -> Slot | None:
    path = directory / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        # Taken over, as a whole, since it was looked at.
        return None
    if try_lock(descriptor) and _is_still(path, descriptor):
        return Slot(directory, descriptor)
    os.close(descriptor)
    return None


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one at `path`: it may have been taken over before it was locked."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
