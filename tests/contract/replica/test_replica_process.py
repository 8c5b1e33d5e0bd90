"""A replica as a process: it drains when it is told to stop."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.running_app import PATIENCE_S, eventually

ROOT = Path(__file__).parents[3]


@pytest.fixture
def drain_timeout_s() -> float:
    return 60


@pytest.fixture
def process(tiny_model: str, drain_timeout_s: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.support.replica_process", tiny_model, str(drain_timeout_s)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.fixture
def port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def stream(port: int, max_tokens: int) -> socket.socket:
    """A stream that has begun."""
    body = json.dumps({"model": "tiny", "prompt": "a", "max_tokens": max_tokens, "stream": True, "temperature": 0})
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall((head + body).encode())
    assert connection.recv(64).startswith(b"HTTP/1.1 200 ")
    return connection


def rest(connection: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"0\r\n\r\n") and (chunk := connection.recv(65536)):
        received += chunk
    return bytes(received)


def test_told_to_stop_it_finishes_what_runs_and_takes_nothing_new(process: subprocess.Popen[str], port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http, stream(port, 1500) as running:
        assert http.get("/health").status_code == 200
        process.send_signal(signal.SIGTERM)
        eventually("it says so", lambda: http.get("/health").status_code == 503)
        refused = http.post("/v1/completions", json={"model": "tiny", "prompt": "a"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "capacity_unavailable"
        assert int(refused.headers["retry-after"]) >= 1
        assert rest(running).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert process.wait(PATIENCE_S) == 0


def test_told_twice_it_stops_at_once(process: subprocess.Popen[str], port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http, stream(port, 8000) as running:
        process.send_signal(signal.SIGINT)
        eventually("it drains", lambda: http.get("/health").status_code == 503)
        process.send_signal(signal.SIGINT)
        *_, last = rest(running).removesuffix(b"\n\n\r\n0\r\n\r\n").split(b"data: ")
        assert json.loads(last)["error"]["code"] == "capacity_unavailable"
        assert process.wait(5) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("drain_timeout_s", [0.5])
def test_what_does_not_finish_in_time_ends_with_an_error_event(process: subprocess.Popen[str], port: int) -> None:
    with stream(port, 8000) as running:
        process.send_signal(signal.SIGTERM)
        *_, last = rest(running).removesuffix(b"\n\n\r\n0\r\n\r\n").split(b"data: ")
    assert json.loads(last)["error"]["code"] == "capacity_unavailable"
    process.wait(PATIENCE_S)
