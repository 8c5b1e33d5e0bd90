"""Wrong requests, and the exceptions that OpenAI's client makes of the answers."""

import json

import httpx
import openai
import pytest
from openai import OpenAI

from forebay.replica.app import create_app
from forebay.replica.settings import ReplicaSettings
from tests.contract.replica.conftest import MAX_BODY_BYTES, MODEL, Replica
from tests.support.running_app import running

CHAT = "/v1/chat/completions"
GOOD = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


def problem(response: httpx.Response, status: int, kind: str) -> dict[str, str]:
    """Check the form that all errors have, and return OpenAI's part."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"]
    body = response.json()
    assert body["type"] == f"urn:forebay:problem:{kind}"
    assert body["status"] == status
    assert body["detail"] == body["error"]["message"]
    return body["error"]


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": "hi"}, "messages"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f g"}}]}, "tools[0].function.name"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"stop": [""]}, "stop[0]"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_wrong_fields_are_bad_requests(client: OpenAI, changed: dict[str, object], param: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.post(CHAT.removeprefix("/v1"), body=GOOD | {"stream": stream} | changed, cast_to=object)
    assert raised.value.param == param
    assert raised.value.type == "invalid_request_error"


def test_another_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=f"'{MODEL}'") as raised:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "hi"}])
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_beyond_the_window_is_refused_with_openais_code(
    client: OpenAI, replica: Replica, stream: bool
) -> None:
    for body in ({"max_tokens": replica.engine.max_model_len}, {"prompt": [5] * replica.engine.max_model_len}):
        with pytest.raises(openai.BadRequestError) as raised:
            client.post("/completions", body={"model": MODEL, "prompt": "a", "stream": stream} | body, cast_to=object)
        assert raised.value.code == "context_length_exceeded"
        assert raised.value.body is not None


def test_bad_json_is_told_with_its_position(http: httpx.Client) -> None:
    for body, where in ((b"", "empty"), (b'{"model": }', "line 1, column 11"), (b"\xff", "byte 0")):
        error = problem(http.post(CHAT, content=body), 400, "malformed-json")
        assert error["code"] == "invalid_json"
        assert where in error["message"]


def test_a_body_that_is_too_large_is_refused_declared_or_not(http: httpx.Client) -> None:
    body = json.dumps(GOOD | {"user": "x" * MAX_BODY_BYTES}).encode()
    problem(http.post(CHAT, content=body), 413, "body-too-large")
    pieces = (body[at : at + 10_000] for at in range(0, len(body), 10_000))
    problem(http.post(CHAT, content=pieces), 413, "body-too-large")


def test_a_body_that_only_claims_to_be_too_large_is_refused_at_once(replica: Replica) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: {10**12}\r\n\r\n".encode()
    with replica.app.connect() as connection:
        connection.sendall(head)
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_body_declared_as_something_else_is_refused(http: httpx.Client) -> None:
    body = json.dumps(GOOD).encode()
    for headers in ({"Content-Type": "text/plain"}, {"Content-Encoding": "gzip"}):
        problem(http.post(CHAT, content=body, headers=headers), 415, "unsupported-media-type")
    assert http.post(CHAT, content=body).status_code == 200, "no declaration is as good as the right one"
    right = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert http.post(CHAT, content=body, headers=right).status_code == 200


def test_unknown_paths_and_methods(http: httpx.Client) -> None:
    assert problem(http.get("/v1/nothing"), 404, "not-found")["code"] == "unknown_url"
    for method, path, allow in (
        ("GET", CHAT, "OPTIONS, POST"),
        ("HEAD", CHAT, "OPTIONS, POST"),
        ("DELETE", "/v1/models", "GET, HEAD, OPTIONS"),
    ):
        response = http.request(method, path)
        assert response.status_code == 405
        assert response.headers["allow"] == allow
    assert problem(http.put(CHAT), 405, "method-not-allowed")["code"] == "method_not_allowed"
    assert http.options(CHAT).status_code == 204
    assert http.options(CHAT).headers["allow"] == "OPTIONS, POST"


def test_request_ids_are_kept_made_and_never_believed(http: httpx.Client) -> None:
    for path in ("/health", "/nothing"):
        assert http.get(path, headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
        for bad in ("", "x" * 200, "a b", 'a"b'):
            assert http.get(path, headers={"X-Request-Id": bad}).headers["x-request-id"].startswith("req-")


def test_a_key_is_wanted_where_there_is_one(replica: Replica) -> None:
    settings = ReplicaSettings(served_model_name=MODEL, api_key="secret-key")
    assert "secret-key" not in repr(settings)
    with running(create_app(replica.engine, replica.model, settings)) as app, httpx.Client(base_url=app.url) as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret-key"}):
            response = http.post(CHAT, json=GOOD, headers=headers)
            assert problem(response, 401, "invalid-api-key")["code"] == "invalid_api_key"
            assert response.headers["www-authenticate"] == "Bearer"
            assert http.post("/tokenize", json={"prompt": "a"}, headers=headers).status_code == 401
        assert http.get("/health").status_code == 200
        assert http.get("/metrics").status_code == 200
        assert http.post(CHAT, json=GOOD, headers={"Authorization": "Bearer secret-key"}).status_code == 200
        with pytest.raises(openai.AuthenticationError):
            OpenAI(base_url=f"{app.url}/v1", api_key="wrong", max_retries=0).models.list()


def test_a_text_that_can_never_fit_is_refused_before_it_is_cut_into_tokens(http: httpx.Client) -> None:
    text = "x" * 99_000
    for path, body in (
        (CHAT, {"messages": [{"role": "user", "content": text}]}),
        ("/v1/completions", {"prompt": text}),
    ):
        error = problem(http.post(path, json={"model": MODEL, **body}), 400, "context-too-long")
        assert "at the very least" in error["message"]
    assert http.post("/tokenize", json={"model": MODEL, "prompt": text}).json()["count"] == 99_000


def test_an_absurd_content_length_is_the_client_s_fault(replica: Replica) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: {'0' * 5000}5\r\n\r\n{{}}   ".encode()
    with replica.app.connect() as connection:
        connection.sendall(head)
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_a_body_that_does_not_arrive_is_not_waited_for(replica: Replica) -> None:
    settings = ReplicaSettings(served_model_name=MODEL, body_timeout_s=0.2)
    with running(create_app(replica.engine, replica.model, settings)) as app:
        answer = app.raw(f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"request-timeout" in answer


@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_of_another_protocol_is_not_taken_up(replica: Replica, chunked: bool) -> None:
    """As `curl --http2` makes it."""
    body = json.dumps(GOOD).encode()
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\n{length}\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    offer = "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nContent-Type: application/json\r\n\r\n"
    plain = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    request = head.encode() + offer.encode() + sent
    for cut in (len(head) + len(offer), len(head) + len(offer) + 10, 30, len(request)):
        with replica.app.connect() as connection:
            connection.sendall(request[:cut])
            connection.sendall(request[cut:] + plain)
            answer = bytearray()
            while piece := connection.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b'"chat.completion"' in answer
        assert answer.count(b"HTTP/1.1 200 ") == 2, "the connection goes on with the next request"
