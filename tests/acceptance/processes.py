"""Real `forebay` processes, which die with the test's own process."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_LIMIT_S = 240.0
STOP_LIMIT_S = 60.0
POLL_S = 0.05


@dataclass
class ForebayProcess:
    """One running command that listens on `port`; what it prints is in `output`."""

    process: subprocess.Popen[bytes]
    port: int
    output: Path

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.root + path, timeout=30) as answer:
            return answer.read()

    def health(self) -> dict[str, Any]:
        return json.loads(self.get("/health"))

    def children(self) -> list[int]:
        """The processes that it has started and that still run."""
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listing.stdout.splitlines()]
        return [int(pid) for pid, parent, state in rows if int(parent) == self.process.pid and state[0] != "Z"]

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_LIMIT_S)

    def printed(self) -> str:
        return self.output.read_text()


@contextmanager
def forebay(
    directory: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Iterator[ForebayProcess]:
    """Run `forebay` with `arguments`, in `directory`, from when it listens to the end of the block."""
    directory.mkdir(parents=True, exist_ok=True)
    port_file, output = directory / "port", directory / "output"
    command = [
        python,
        "-m",
        "forebay",
        *arguments,
        "--port",
        "0",
        "--port-file",
        str(port_file),
        "--exit-with-parent",
    ]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=clean_environment() | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        until("it listens", port_file.exists, process, output)
        yield ForebayProcess(process, int(port_file.read_text()), output)
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def run_forebay(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `forebay` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "forebay", *arguments],
        cwd=directory,
        env=clean_environment() | (environment or {}),
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
        check=False,
    )


def clean_environment() -> dict[str, str]:
    """This process's, without the settings of whoever runs the tests but for where models are cached."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FOREBAY_") or name == "FOREBAY_CACHE_DIR"
    }


def until(
    what: str,
    holds: Any,
    process: subprocess.Popen[bytes] | None = None,
    output: Path | None = None,
    limit_s: float = START_LIMIT_S,
) -> None:
    """Wait until `holds()`; fail, with what was printed, where the process ends before or the time is over."""
    deadline = time.monotonic() + limit_s
    while not holds():
        said = output.read_text() if output is not None else ""
        assert process is None or process.poll() is None, f"ended before {what}:\n{said}"
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}\n{said}"
        time.sleep(POLL_S)


def alive(pid: int) -> bool:
    """Whether a process runs, zombies aside."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")
