"""Servers whose standard output and error cannot be written serve all the same."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.running_app import eventually
from tests.support.tiny_chat_model import write_tiny_chat_model

FULL = Path("/dev/full")


def life(arguments: Sequence[str], directory: Path, output: int) -> int:
    """Start it, ask for its health, stop it; returns its exit code."""
    port_file = directory / "port"
    command = [sys.executable, "-m", "forebay", *arguments, "--port", "0", "--port-file", str(port_file)]
    with subprocess.Popen(command, cwd=directory, stdout=output, stderr=output) as process:
        try:
            eventually("it listens", lambda: port_file.exists() or process.poll() is not None)
            assert process.poll() is None
            with urllib.request.urlopen(f"http://127.0.0.1:{int(port_file.read_text())}/health", timeout=20) as answer:
                assert "status" in json.load(answer)
            process.send_signal(signal.SIGTERM)
            return process.wait(20)
        finally:
            process.kill()


@pytest.fixture(params=["full disk", "closed pipe"])
def output(request: pytest.FixtureRequest) -> int:
    if request.param == "full disk":
        return os.open(FULL, os.O_WRONLY)
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_an_engine(tmp_path: Path, output: int) -> None:
    model = write_tiny_chat_model(tmp_path / "tiny")
    engine = ["engine", "serve", "--model", str(model), "--kv-cache-gb", "0.05", "--swap-space-gb", "0"]
    assert life([*engine, "--threads", "1"], tmp_path, output) == 0
    os.close(output)


def test_a_gateway(tmp_path: Path, output: int) -> None:
    (tmp_path / "forebay.toml").write_text('data_dir = "data"\n[pools.nobody]\nurl = "http://127.0.0.1:9/v1"\n')
    assert life(["serve"], tmp_path, output) == 0
    os.close(output)
