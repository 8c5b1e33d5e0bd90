"""A gateway that counts in its own memory has its data directory for itself: two would each allow all of a quota."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from forebay.core.errors import ConfigurationError
from forebay.core.file_lock import try_lock

LOCK_FILE = "gateway.lock"


@contextmanager
def sole_user(data_dir: Path) -> Generator[None]:
    """Raises ConfigurationError where another gateway has the directory."""
    path = data_dir / LOCK_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror}). Set data_dir to a directory that you own."
        ) from error
    try:
        if not try_lock(descriptor):
            raise ConfigurationError(
                f"Another forebay serve uses the data directory {data_dir}, and each would allow all of a quota. Stop "
                "it, set another data_dir, or let both count in one Valkey server (storage.counters)."
            )
        yield
    finally:
        os.close(descriptor)
