"""A client that leaves takes its work with it."""

import json
import socket

import httpx
import pytest

from tests.contract.replica.conftest import MODEL, Replica
from tests.contract.replica.test_replica_info import samples
from tests.support.running_app import eventually

LONG = 7000
"""Tokens: seconds of work, even for the smallest model."""

BOUND_S = 2.0
"""A step takes some ten milliseconds; the rest is for a busy machine."""


def begin(replica: Replica, path: str, **fields: object) -> socket.socket:
    body = json.dumps({"model": MODEL, "max_tokens": LONG, "temperature": 0} | fields).encode()
    connection = replica.app.connect()
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def idle(replica: Replica) -> bool:
    stats = replica.engine.stats()
    return stats.running == stats.waiting == stats.used_blocks == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reset", [False, True])
def test_its_blocks_are_freed_within_bounded_time(
    replica: Replica, http: httpx.Client, stream: bool, reset: bool
) -> None:
    eventually("nothing runs before", lambda: idle(replica))
    before = samples(http)
    connection = begin(replica, "/v1/completions", prompt="Once", stream=stream)
    eventually("it runs", lambda: replica.engine.stats().used_blocks > 0)
    if stream:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()
    eventually("its blocks are free", lambda: idle(replica), BOUND_S)
    after = samples(http)
    made = after["vllm:generation_tokens_total", None] - before["vllm:generation_tokens_total", None]
    assert made < LONG, "it ran to its end: the test proves nothing"
    assert after["vllm:request_success_total", "abort"] == before["vllm:request_success_total", "abort"] + 1


def test_one_that_still_waits_is_taken_out_of_the_queue(replica: Replica) -> None:
    eventually("nothing runs before", lambda: idle(replica))
    connections = [begin(replica, "/v1/completions", prompt=f"Number {index}", stream=True) for index in range(6)]
    try:
        eventually("some run, some wait", lambda: replica.engine.stats().waiting == 2)
        for connection in connections[4:]:
            connection.close()
        eventually("none waits", lambda: replica.engine.stats().waiting == 0, BOUND_S)
        assert replica.engine.stats().running == 4
    finally:
        for connection in connections:
            connection.close()
    eventually("all blocks are free", lambda: idle(replica), BOUND_S)


def test_one_that_does_not_read_is_noticed_when_it_leaves(replica: Replica) -> None:
    eventually("nothing runs before", lambda: idle(replica))
    connection = begin(
        replica, "/v1/chat/completions", messages=[{"role": "user", "content": "a"}], stream=True, max_tokens=LONG
    )
    eventually("it runs", lambda: replica.engine.stats().used_blocks > 0)
    connection.close()
    eventually("its blocks are free", lambda: idle(replica), BOUND_S)


def test_one_that_leaves_in_the_middle_of_its_body_is_forgotten(replica: Replica, http: httpx.Client) -> None:
    with replica.app.connect() as connection:
        connection.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{"model"')
    assert http.get("/health").status_code == 200
