"""What survives a loss of power on a local disk."""

import os
import sys
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a loss of power. Raises OSError."""
    if sys.platform == "win32":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
