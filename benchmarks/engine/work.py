"""The benchmark's own folder, and the one-time steps that fill it."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""
WORK = ROOT / "benchmarks" / ".work"
"""Peers' builds, models, logs and results; git ignores it, and deleting it only costs the time to fill it again."""

_GUARD = Path(__file__).with_name("guard.py")


class PeerUnavailableError(Exception):
    """A peer cannot run on this machine; the message is the reason, for the report."""


def run_step(
    command: Sequence[str | Path],
    *,
    what: str,
    log: Path,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run one step of a preparation to its end; it dies with this process. PeerUnavailableError when it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    print(f"  {what} (log: {log.relative_to(ROOT)})", flush=True)
    read_end, write_end = os.pipe()
    try:
        with log.open("wb") as log_file:
            code = subprocess.run(
                [sys.executable, "-I", str(_GUARD), str(read_end), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                pass_fds=(read_end,),
                timeout=timeout_s,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        raise PeerUnavailableError(f"{what} took more than {timeout_s:.0f} s") from None
    finally:
        os.close(read_end)
        os.close(write_end)
    if code != 0:
        tail = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise PeerUnavailableError(f"{what} failed: {tail}")


def pip_download(requirement: str, into: Path, *options: str, log: Path) -> Path:
    """The file that pip downloads for `requirement` alone, without what it depends on; `into` is emptied first."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", *options]
    run_step([*command, "--dest", into, requirement], what=f"download {requirement}", log=log, timeout_s=900)
    files = list(into.iterdir())
    if len(files) != 1:
        raise PeerUnavailableError(f"pip download of {requirement} left {len(files)} files in {into}, not one")
    return files[0]


def python_with(
    name: str, requirements: Sequence[str], *, timeout_s: float, without_dependencies: Sequence[str] = ()
) -> Path:
    """The Python of a virtual environment `name` in the work folder, made when it is not there.

    It holds `requirements` with all they depend on, and `without_dependencies` alone.
    """
    folder = WORK / f"venv-{name}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    recipe = "\n".join([*requirements, *without_dependencies])
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text() == recipe:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--only-binary", ":all:"]
    log = WORK / "logs" / f"venv-{name}.log"
    run_step([*install, *requirements], what=f"install for {name}", log=log, timeout_s=timeout_s)
    if without_dependencies:
        command = [*install, "--no-deps", *without_dependencies]
        run_step(command, what=f"install {name} itself", log=log.with_suffix(".itself.log"), timeout_s=timeout_s)
    stamp.write_text(recipe)
    return python
