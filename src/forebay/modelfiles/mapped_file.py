"""A file whose bytes stay on disk until they are read."""

import mmap
from pathlib import Path

from forebay.core.errors import ModelFileError


def map_file(path: Path, why_needed: str = "") -> mmap.mmap:
    """The file's bytes, read-only. Raises ModelFileError where it is missing (and says `why_needed`) or unreadable."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} does not exist{why_needed}") from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from error
