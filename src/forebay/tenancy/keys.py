"""API keys: how one is made, kept and compared.

A key is 256 random bits, so an unsalted fast hash cannot be searched backwards; only the hash is held in memory.
"""

import hashlib
import os
import secrets
import stat
from pathlib import Path

from forebay.core.errors import ConfigurationError

KEY_PREFIX = "fb-"
KEY_FILE = "api-key"


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_hash(key: str) -> bytes:
    """SHA-256 of the key, 32 bytes."""
    return hashlib.sha256(key.encode()).digest()


def load_or_create_key(data_dir: Path) -> str:
    """The key kept in `data_dir`, made at the first call.

    The file appears whole or not at all, readable by its owner alone. Raises ConfigurationError where it cannot be read
    or written, is empty, or others can read it.
    """
    path = data_dir / KEY_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _write_once(path, new_key())
        return _read(path)
    except OSError as error:
        raise ConfigurationError(
            f"The API key file {path} cannot be used: {error.strerror or error}. Set data_dir to a directory that this "
            "user may write, or set tenancy.api_key."
        ) from error


def _write_once(path: Path, key: str) -> None:
    """Write beside, then link into place: of two first starts at once, one wins and both read its key."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            return
    finally:
        beside.unlink()


def _read(path: Path) -> str:
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        raise ConfigurationError(
            f"The API key file {path} can be read by others (mode {mode:04o}). Run `chmod 600` on it, or delete it so "
            "that a new key is made."
        )
    key = path.read_text().strip()
    if not key:
        raise ConfigurationError(f"The API key file {path} is empty. Delete it so that a new key is made.")
    return key
