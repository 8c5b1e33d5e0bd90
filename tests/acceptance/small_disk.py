"""A disk of its own that a test can fill."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHUNK = bytes(4096)


class SmallDisk:
    """Few megabytes at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(CHUNK)
            except OSError:
                return

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(path: Path, size_mb: int) -> Iterator[SmallDisk]:
    """In memory, mounted at `path`. Skips the test where that is not permitted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `mount` for a small disk")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], timeout=30, check=True)
