"""What each request has used: in its stream, in the replica's book, and in the engine's own count."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI
from structlog.testing import capture_logs

from forebay.core.ids import new_id
from forebay.replica.app import create_app
from forebay.replica.settings import ReplicaSettings
from tests.contract.replica.conftest import MODEL, Replica
from tests.contract.replica.test_replica_disconnect import LONG, idle
from tests.contract.replica.test_replica_info import samples
from tests.support.running_app import eventually, running

MESSAGES = [{"role": "user", "content": "Say something."}]
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "Once upon a time"},
}


def chunks(http: httpx.Client, path: str, **fields: object) -> Iterator[dict[str, Any]]:
    body = {"model": MODEL, "stream": True, "temperature": 0, **ASKED[path], **fields}
    with http.stream("POST", path, json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def booked(http: httpx.Client, id_: str, wait_s: float = 10) -> dict[str, Any]:
    response = http.get(f"/v1/requests/{id_}/usage", params={"wait_s": wait_s})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("path", ASKED)
def test_every_chunk_has_the_usage_so_far_where_that_is_asked_for(http: httpx.Client, path: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    told = [chunk["usage"] for chunk in chunks(http, path, max_tokens=9, stream_options=options)]
    made = [usage["completion_tokens"] for usage in told]
    assert made == sorted(made)
    assert made[0] < 9 == made[-1]
    assert len({usage["prompt_tokens"] for usage in told}) == 1
    assert all(usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] for usage in told)
    assert all("cached_tokens" in usage["prompt_tokens_details"] for usage in told)


@pytest.mark.parametrize("path", ASKED)
def test_without_include_usage_no_chunk_has_it(http: httpx.Client, path: str) -> None:
    for chunk in chunks(http, path, max_tokens=3, stream_options={"continuous_usage_stats": True}):
        assert "usage" not in chunk


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("fields", [{}, {"n": 3}, {"max_tokens": 1}])
def test_the_book_has_what_the_answer_tells(http: httpx.Client, path: str, fields: dict[str, Any]) -> None:
    id_ = new_id("req")
    body = {"model": MODEL, "max_tokens": 7, **ASKED[path], **fields}
    usage = http.post(path, json=body, headers={"X-Request-Id": id_}).json()["usage"]
    assert booked(http, id_) == {
        "request_id": id_,
        "prompt_tokens": usage["prompt_tokens"],
        "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "finish_reason": "length",
        "ended": True,
    }


def test_several_prompts_are_summed_up(http: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": ["one", "another"], "n": 2, "max_tokens": 4}
    answer = http.post("/v1/completions", json=body, headers={"X-Request-Id": "several/prompts"}).json()
    told = booked(http, "several%2Fprompts")
    assert told["prompt_tokens"] == answer["usage"]["prompt_tokens"]
    assert told["completion_tokens"] == answer["usage"]["completion_tokens"] == 16


def test_a_scored_prompt_without_output_has_none(http: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": "scored", "max_tokens": 0, "echo": True}
    usage = http.post("/v1/completions", json=body, headers={"X-Request-Id": "scored"}).json()["usage"]
    assert booked(http, "scored")["completion_tokens"] == usage["completion_tokens"] == 0


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_of_a_client_that_left_it_has_every_token_that_the_engine_made(
    replica: Replica, http: httpx.Client, path: str, stream: bool, n: int
) -> None:
    eventually("nothing runs before", lambda: idle(replica))
    before = samples(http)
    id_ = new_id("req")
    body = json.dumps({"model": MODEL, "max_tokens": LONG, "stream": stream, "n": n, **ASKED[path]}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nX-Request-Id: {id_}\r\nContent-Length: {len(body)}\r\n\r\n"
    with replica.app.connect() as connection:
        connection.sendall(head.encode() + body)
        eventually("it has arrived", lambda: _known(http, id_))
        eventually("it generates", lambda: booked(http, id_, 0)["completion_tokens"] > 5)
        so_far = booked(http, id_, 0)
        assert so_far["ended"] is False
        assert so_far["finish_reason"] is None
    told = booked(http, id_)
    after = samples(http)
    made = after["vllm:generation_tokens_total", None] - before["vllm:generation_tokens_total", None]
    assert told["ended"] is True
    assert told["finish_reason"] == "abort"
    assert so_far["completion_tokens"] <= told["completion_tokens"] == made < n * LONG
    prompts = after["vllm:prompt_tokens_total", None] - before["vllm:prompt_tokens_total", None]
    assert n * told["prompt_tokens"] == prompts


def test_one_that_left_before_its_turn_has_cost_nothing(replica: Replica, http: httpx.Client) -> None:
    eventually("nothing runs before", lambda: idle(replica))
    body = json.dumps({"model": MODEL, "max_tokens": LONG, "prompt": "Wait", "stream": True}).encode()
    ids = [new_id("req") for _ in range(5)]
    connections = [replica.app.connect() for _ in ids]
    try:
        for id_, connection in zip(ids, connections, strict=True):
            head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-Request-Id: {id_}\r\nContent-Length: {len(body)}"
            connection.sendall(f"{head}\r\n\r\n".encode() + body)
            if id_ == ids[3]:
                eventually("there is no room for more", lambda: replica.engine.stats().running == 4)
        eventually("the last one waits", lambda: replica.engine.stats().waiting == 1)
        connections[4].close()
        told = booked(http, ids[4])
        assert (told["prompt_tokens"], told["completion_tokens"], told["finish_reason"]) == (0, 0, "abort")
    finally:
        for connection in connections:
            connection.close()
    eventually("all are gone", lambda: idle(replica))


def _known(http: httpx.Client, id_: str) -> bool:
    return http.get(f"/v1/requests/{id_}/usage").status_code == 200


def test_one_that_was_refused_has_cost_nothing(http: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": "a", "max_tokens": 10**6}
    assert http.post("/v1/completions", json=body, headers={"X-Request-Id": "refused"}).status_code == 400
    told = booked(http, "refused")
    assert (told["prompt_tokens"], told["completion_tokens"], told["finish_reason"]) == (0, 0, "error")


def test_of_two_with_one_id_the_later_counts(http: httpx.Client) -> None:
    for max_tokens in (3, 5):
        body = {"model": MODEL, "prompt": "a", "max_tokens": max_tokens}
        http.post("/v1/completions", json=body, headers={"X-Request-Id": "twice"})
    assert booked(http, "twice")["completion_tokens"] == 5


def test_the_log_has_the_same_numbers(http: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": "nobody-reads-this", "max_tokens": 3}
    with capture_logs() as lines:
        http.post("/v1/completions", json=body, headers={"X-Request-Id": "logged-one"})
        told = booked(http, "logged-one")
    (line,) = [line for line in lines if line["event"] == "generated"]
    assert {name: value for name, value in told.items() if name != "ended"}.items() <= line.items()
    assert "nobody-reads-this" not in str(lines)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/requests/unheard-of/usage", 404),
        ("/v1/requests/unheard-of", 404),
        ("/v1/requests/unheard-of/usage?wait_s=-1", 400),
        ("/v1/requests/unheard-of/usage?wait_s=nan", 400),
        ("/v1/requests/unheard-of/usage?wait_s=many", 400),
    ],
)
def test_what_cannot_be_told(http: httpx.Client, path: str, status: int) -> None:
    assert http.get(path).status_code == status


def test_the_book_is_for_whoever_has_the_key(replica: Replica) -> None:
    settings = ReplicaSettings(served_model_name=MODEL, api_key="a key")
    with running(create_app(replica.engine, replica.model, settings)) as app:
        with OpenAI(base_url=f"{app.url}/v1", api_key="a key", max_retries=0) as client:
            client.completions.create(model=MODEL, prompt="a", max_tokens=1, extra_headers={"X-Request-Id": "mine"})
        with httpx.Client(base_url=app.url) as http:
            # A stranger neither sees it nor writes over it.
            assert http.get("/v1/requests/mine/usage").status_code == 401
            headers = {"X-Request-Id": "mine"}
            assert http.post("/v1/completions", json={}, headers=headers).status_code == 401
            known = http.get("/v1/requests/mine/usage", headers={"Authorization": "Bearer a key"})
            assert known.json()["completion_tokens"] == 1


def test_one_that_is_asked_about_before_it_arrives_is_waited_for(replica: Replica, http: httpx.Client) -> None:
    id_ = new_id("req")
    question = f"GET /v1/requests/{id_}/usage?wait_s=20 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with replica.app.connect() as asking:
        asking.sendall(question.encode())
        body = {"model": MODEL, "prompt": "late", "max_tokens": 2}
        assert http.post("/v1/completions", json=body, headers={"X-Request-Id": id_}).status_code == 200
        answer = b""
        while chunk := asking.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"completion_tokens":2' in answer
