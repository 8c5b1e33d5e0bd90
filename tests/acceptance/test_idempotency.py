"""`Idempotency-Key`: whatever happens, a request with one runs once and is billed once."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.acceptance.operated import (
    OPERATOR_KEY,
    Operated,
    chat,
    operated,
    ready,
    write_configuration,
)
from tests.acceptance.processes import forebay, until
from tests.support.servers.valkey import valkey_server

KEY = "Idempotency-Key"
LONG = 6000
"""Tokens of an answer that takes long enough to be joined."""
ENGINE_KEY = "engine-key-0123456789"
MESSAGE = {"role": "user", "content": "Hi"}
LONG_BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": chat(model="endless", max_tokens=LONG),
    "completions": {"model": "endless", "prompt": "Hi", "max_tokens": LONG, "temperature": 0},
    "responses": {"model": "endless", "input": "Hi", "max_output_tokens": LONG, "temperature": 0},
    "messages": {"model": "endless", "messages": [MESSAGE], "max_tokens": LONG, "temperature": 0},
}
WAYS = [(route, stream) for route in LONG_BODIES for stream in (False, True)]


def post(service: Operated, secret: str, key: str, body: Any, route: str = "chat/completions") -> httpx.Response:
    with service.http(secret) as client:
        return client.post(f"/v1/{route}", json=body, headers={KEY: key})


def secret_of(service: Operated, **fields: Any) -> str:
    return str(service.key(service.tenant(**fields))["secret"])


def conflict(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 409, answer.text
    body: dict[str, Any] = answer.json()
    return body


@contextmanager
def in_background(work: Any, *arguments: Any) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work, *arguments)


def until_running(service: Operated, pool: str = "endless") -> None:
    """A request of that pool is being served."""
    line = f'forebay_requests_in_flight{{pool="{pool}"}} 0.0'
    until("a request runs", lambda: line not in service.process.get("/metrics").decode(), limit_s=10)


@pytest.mark.parametrize(("route", "stream"), WAYS)
def test_a_repeat_joins_the_first_while_it_runs(service: Operated, route: str, stream: bool) -> None:
    secret = secret_of(service)
    body = {**LONG_BODIES[route], "stream": stream}
    with in_background(post, service, secret, "one", body, route) as first:
        until_running(service)
        again = post(service, secret, "one", body, route)
    assert first.result().status_code == 200, first.result().text
    assert again.content == first.result().content
    assert len(again.content) > LONG
    (row,) = service.usage(secret, "pool", "status")
    assert (row["requests"], row["output_tokens"], row["status"]) == (1, LONG, "completed")
    # Afterwards there is no answer any more, but what it cost.
    late = conflict(post(service, secret, "one", body, route))
    assert late["usage"]["completion_tokens"] == LONG
    assert late["usage"]["cost_usd"] == "0"
    assert service.requests(secret) == 1


def test_a_repeat_after_the_end_is_told_what_the_first_used(service: Operated) -> None:
    client = service.client(secret_of(service), max_retries=2)
    headers = {KEY: "one"}
    first = client.chat.completions.with_raw_response.create(**chat(), extra_headers=headers)
    before = service.arrived({"status": "409"})
    with pytest.raises(openai.ConflictError) as refused:
        client.chat.completions.create(**chat(), extra_headers=headers)
    assert service.arrived({"status": "409"}) == before + 1
    response = refused.value.response
    assert response.headers["x-should-retry"] == "false"
    body = response.json()
    assert body["type"] == "urn:forebay:problem:request-repeated"
    assert body["error"]["code"] == "request_repeated"
    usage = first.parse().usage
    assert usage is not None
    assert body["usage"] == {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": 0,
        "completion_tokens": usage.completion_tokens,
        "cost_usd": f"{(usage.prompt_tokens * 1000 + usage.completion_tokens * 2000) / 1e9:f}",
    }
    assert first.headers["x-request-id"] in body["detail"]
    assert service.requests(client.api_key) == 1


def test_one_key_is_for_one_request(service: Operated) -> None:
    secret = secret_of(service)
    assert post(service, secret, "one", chat()).status_code == 200
    assert "another request" in conflict(post(service, secret, "one", chat("Bye")))["detail"]
    text = {"model": "brief", "prompt": "Hi"}
    assert "another request" in conflict(post(service, secret, "one", text, "completions"))["detail"]
    long = chat(model="endless", max_tokens=LONG)
    with in_background(post, service, secret, "two", long) as first:
        until_running(service)
        other = post(service, secret, "two", {**long, "max_tokens": 5})
        assert "another request" in conflict(other)["detail"]
        assert other.headers["x-should-retry"] == "false"
    assert first.result().status_code == 200
    assert service.requests(secret) == 2


def test_tenants_keys_are_their_own(service: Operated) -> None:
    one, other = secret_of(service), secret_of(service)
    for secret in (one, other):
        assert post(service, secret, "same", chat()).status_code == 200
    assert (service.requests(one), service.requests(other)) == (1, 1)
    for key in ("", "x" * 256):
        assert post(service, one, key, chat()).status_code == 400


@pytest.mark.parametrize(("route", "stream"), WAYS)
def test_answers_are_told_again_to_tenants_that_have_them_kept(service: Operated, route: str, stream: bool) -> None:
    secret = secret_of(service, replay_outputs=True)
    body = {**LONG_BODIES[route], "stream": stream, "max_tokens": 20}
    if route == "responses":
        body["max_output_tokens"] = body.pop("max_tokens")
    first = post(service, secret, "one", body, route)
    assert first.status_code == 200, first.text
    assert "idempotent-replayed" not in first.headers
    again: list[httpx.Response] = []

    def replayed() -> bool:
        again.append(post(service, secret, "one", body, route))
        return again[-1].headers.get("idempotent-replayed") == "true"

    until("it comes from the shelf", replayed, limit_s=10)
    assert {answer.content for answer in again} == {first.content}
    assert again[-1].headers["content-type"] == first.headers["content-type"]
    assert service.requests(secret) == 1


def test_who_leaves_in_mid_stream_may_come_back(service: Operated) -> None:
    secret = secret_of(service)
    body = chat(model="endless", max_tokens=LONG, stream=True)
    with (
        service.http(secret) as client,
        client.stream("POST", "/v1/chat/completions", json=body, headers={KEY: "one"}) as answer,
    ):
        begun = next(answer.iter_bytes())
    time.sleep(0.5)
    again = post(service, secret, "one", body)
    assert again.status_code == 200
    assert again.content.startswith(begun[:50])
    assert again.content.endswith(b"data: [DONE]\n\n")
    (row,) = service.usage(secret, "status")
    assert (row["requests"], row["status"], row["output_tokens"]) == (1, "completed", LONG)


def test_what_was_turned_away_may_be_sent_again(service: Operated) -> None:
    tenant = service.tenant()
    secret = service.key(tenant)["secret"]
    service.quota(tenant, requests_per_minute=120, request_burst=1)
    assert post(service, secret, "one", chat()).status_code == 200
    refused = post(service, secret, "two", chat())
    assert refused.status_code == 429
    time.sleep(int(refused.headers["retry-after-ms"]) / 1000)
    assert post(service, secret, "two", chat()).status_code == 200
    # The client's own retry, too.
    retrying = service.client(secret, max_retries=2)
    answer = retrying.chat.completions.with_raw_response.create(**chat(), extra_headers={KEY: "three"})
    assert answer.retries_taken == 1
    unusable = chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"pattern": "("}}})
    for _ in range(2):
        answer = post(service, secret, "four", unusable)
        assert answer.status_code in {400, 429}
    assert service.usage(secret, "status")[0]["requests"] == 3


def test_after_a_crash_nothing_runs_again(tmp_path: Path, tiny_models: Path) -> None:
    """Neither what had ended, nor what was cut off: it is known from the books."""
    write_configuration(tmp_path / "own", tiny_models)
    cut = chat(model="endless", max_tokens=50_000, stream=True)
    with operated(tmp_path / "own") as service:
        secret = secret_of(service)
        ended = post(service, secret, "ended", chat())
        with (
            service.http(secret) as client,
            client.stream("POST", "/v1/chat/completions", json=cut, headers={KEY: "cut"}) as answer,
        ):
            chunks = answer.iter_bytes()
            next(chunks)
            time.sleep(1.5)
            service.process.process.kill()
            service.process.process.wait(30)
    (tmp_path / "own" / "port").unlink()
    with forebay(tmp_path / "own", ["serve"]) as process:
        service = Operated(process)
        # From the first moment on, and later.
        told = [conflict(post(service, secret, "cut", cut))]
        assert conflict(post(service, secret, "ended", chat()))["usage"]["completion_tokens"] == 13
        ready(process)

        def closed() -> bool:
            told.append(conflict(post(service, secret, "cut", cut)))
            return "usage" in told[-1]

        until("the cut off one is closed", closed, limit_s=20)
        assert told[-1]["usage"]["completion_tokens"] > 0
        assert conflict(post(service, secret, "ended", chat()))["usage"]["completion_tokens"] == 13
        used = {row["status"]: row["requests"] for row in service.usage(secret, "status")}
        assert used == {"completed": 1, "recovered": 1}
        assert ended.json()["usage"]["completion_tokens"] == 13


GATEWAY = """
data_dir = "data"
tenancy.api_key = "{operator_key}"
tenancy.refresh_s = 0.2
tenancy.lease_ttl_s = 3.0
storage.database = "sqlite:///{database}"
storage.counters = "{counters}"

[pools.endless]
url = "{engine}"
api_key = "{engine_key}"
engine = "forebay"
"""


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[tuple[Operated, Operated]]:
    """Two before one engine, which share a database and a Valkey."""
    root = tmp_path_factory.mktemp("gateways")
    arguments = ["engine", "serve", "--model", str(tiny_models / "endless"), "--served-model-name", "endless"]
    arguments += ["--weight-precision", "f32", "--kv-cache-gb", "0.1", "--swap-space-gb", "0.1"]
    with (
        valkey_server() as counters,
        forebay(root / "engine", arguments, {"FOREBAY_REPLICA_API_KEY": ENGINE_KEY}) as engine,
    ):
        configuration = GATEWAY.format(
            operator_key=OPERATOR_KEY,
            database=root / "shared.db",
            counters=counters.url,
            engine=engine.url,
            engine_key=ENGINE_KEY,
        )
        for name in ("one", "other"):
            (root / name).mkdir()
            (root / name / "forebay.toml").write_text(configuration)
        with operated(root / "one") as one, operated(root / "other") as other:
            yield one, other


def known(service: Operated, secret: str) -> None:
    def accepted() -> bool:
        with service.http(secret) as client:
            return client.get("/v1/models").status_code == 200

    until("the key is known", accepted, limit_s=10)


def test_two_gateways_do_not_run_it_twice(gateways: tuple[Operated, Operated]) -> None:
    one, other = gateways
    secret = secret_of(one)
    known(other, secret)
    body = chat(model="endless", max_tokens=LONG)
    with in_background(post, one, secret, "one", body) as first:
        until_running(one)
        told = post(other, secret, "one", body)
        assert "still running" in conflict(told)["detail"]
        assert told.headers["x-should-retry"] == "true"
        assert "another request" in conflict(post(other, secret, "one", {**body, "max_tokens": 5}))["detail"]
    assert first.result().status_code == 200
    assert conflict(post(other, secret, "one", body))["usage"]["completion_tokens"] == LONG
    assert one.requests(secret) + other.requests(secret) == 1


def test_many_at_once_through_two_gateways_run_once(gateways: tuple[Operated, Operated]) -> None:
    """Those at the gateway where the first runs join it, the others are told of it."""
    one, other = gateways
    secret = secret_of(one)
    known(other, secret)
    body = chat(model="endless", max_tokens=LONG)
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(post, gateways[number % 2], secret, "many", body) for number in range(12)]
        answers = [each.result() for each in asked]
    good = [answer for answer in answers if answer.status_code == 200]
    assert len({answer.content for answer in good}) == 1
    assert len(good) == 6
    assert {answer.status_code for answer in answers} == {200, 409}
    assert one.requests(secret) + other.requests(secret) == 1
