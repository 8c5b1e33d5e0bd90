"""Prompts and outputs are nowhere to be found after a run, unless their tenant opted in to that.

Kept by their nature, and so no place for anything confidential (docs/privacy.md): the names that operators give
(tenants, keys, tags, aliases), the `X-Request-Id` that a client chooses, and the path of a URL.
"""

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.processes import ForebayProcess, forebay, until
from tests.acceptance.stored_bytes import holds, where
from tests.support.echoing_server import WAYS, echoing_server
from tests.support.scripted_model import write_scripted_model

ASKED = "QuinceZebraFjordWaltz"
"""In everything that is asked."""
ANSWERED = "KumquatGlyphVexJinks"
"""In everything that the models say."""
IN_A_PATH = "PapayaNymphBoxSquad"
IN_A_REQUEST_ID = "MedlarCwmFjordBank"
IN_A_TAG = "LycheeVibexQuoits"
OPTED_IN = "DamsonSphinxQuartz"
"""Asked by the tenant that has it kept."""

OPERATOR_KEY = "operator-key-0123456789"
ENGINE_KEY = "engine-key-0123456789"

SPEAKER = ("Say ", ANSWERED, *(f" w{number}" for number in range(400)))
CALLER = ("<tool_call>", '\n{"name": "weather", ', '"arguments": {"city": "', ANSWERED, '"}}\n', "</tool_call>")

CONFIGURATION = """
data_dir = "data"
log.level = "debug"
tenancy.api_key = "{operator_key}"
tenancy.refresh_s = 0.2
gateway.max_body_mb = 0.5
metering.segment_age_s = 1.0
content.sweep_interval_s = 1.0
fleet.probe_interval_s = 0.5
fleet.restart_backoff_s = 0.2

[pools.speaker]
model = "speaker"
engine_settings = {{ weight_precision = "f32", kv_cache_gb = 0.1, swap_space_gb = 0.1 }}

[pools.caller]
url = "{engine}"
api_key = "{engine_key}"
engine = "forebay"

[pools.echo]
url = "{echo}"
"""


@dataclass(frozen=True)
class Run:
    """A platform that runs, and the engine of one of its pools."""

    platform: ForebayProcess
    engine: ForebayProcess
    directory: Path

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def client(self, key: str = OPERATOR_KEY) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.platform.root, headers=headers, timeout=120)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    directory = tmp_path_factory.mktemp("privacy")
    write_scripted_model(directory / "speaker", SPEAKER)
    write_scripted_model(directory / "caller", CALLER)
    arguments = ["engine", "serve", "--model", str(directory / "caller"), "--served-model-name", "caller"]
    arguments += ["--weight-precision", "f32", "--kv-cache-gb", "0.1", "--swap-space-gb", "0.1", "--log-level", "debug"]
    environment = {"FOREBAY_REPLICA_API_KEY": ENGINE_KEY}
    with (
        echoing_server() as echo,
        forebay(directory / "engine", arguments, environment) as engine,
    ):
        configuration = CONFIGURATION.format(
            operator_key=OPERATOR_KEY, engine=engine.url, engine_key=ENGINE_KEY, echo=echo
        )
        (directory / "forebay.toml").write_text(configuration)
        with forebay(directory, ["serve"]) as platform:
            until(
                "its pools are ready",
                lambda: "Ctrl-C stops it" in platform.printed(),
                platform.process,
                platform.output,
            )
            yield Run(platform, engine, directory)


def messages(text: str = ASKED) -> list[dict[str, Any]]:
    return [{"role": "system", "content": text}, {"role": "user", "content": f"Say {text} again."}]


def chat(model: str = "speaker", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": messages(), "max_tokens": 8, "temperature": 0, **more}


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": ASKED,
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": ASKED}}},
    },
}


def schema(shape: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": shape}}}


GOOD: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("chat/completions", chat(user=ASKED, metadata={ASKED: ASKED}, stop=[ASKED])),
    "logprobs": ("chat/completions", chat(logprobs=True, top_logprobs=2)),
    "an unknown field": ("chat/completions", chat(**{ASKED: ASKED})),
    "tools": ("chat/completions", chat("caller", tools=[TOOL], max_tokens=32)),
    "a streamed tool call": ("chat/completions", chat("caller", tools=[TOOL], max_tokens=32, stream=True)),
    "a schema": ("chat/completions", chat(**schema({"type": "object", "properties": {ASKED: {"type": "string"}}}))),
    "a stream": ("chat/completions", chat(stream=True, stream_options={"include_usage": True})),
    "completions": ("completions", {"model": "speaker", "prompt": [ASKED, ASKED], "max_tokens": 4, "suffix": None}),
    "echo": ("completions", {"model": "speaker", "prompt": ASKED, "max_tokens": 4, "echo": True, "logprobs": 1}),
    "responses": (
        "responses",
        {"model": "speaker", "input": ASKED, "instructions": ASKED, "metadata": {"a": ASKED}, "store": False},
    ),
    "a streamed response": ("responses", {"model": "speaker", "input": ASKED, "stream": True, "store": False}),
    "messages": (
        "messages",
        {
            "model": "speaker",
            "max_tokens": 8,
            "system": ASKED,
            "messages": messages()[1:],
            "metadata": {"user_id": ASKED},
        },
    ),
    "streamed messages": (
        "messages",
        {"model": "speaker", "max_tokens": 8, "messages": messages()[1:], "stream": True},
    ),
}

BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "an unknown model": ("chat/completions", chat(ASKED)),
    "too long": ("chat/completions", {**chat(), "messages": messages(ASKED * 1000)}),
    "a wrong type": ("chat/completions", {**chat(), "messages": ASKED}),
    "a wrong role": ("chat/completions", {**chat(), "messages": [{"role": ASKED, "content": ASKED}]}),
    "a wrong number": ("chat/completions", chat(temperature=ASKED)),
    "a wrong tier": ("chat/completions", chat(service_tier=[ASKED], n=0, user=ASKED)),
    "a wrong pattern": ("chat/completions", chat(**schema({"type": "string", "pattern": f"({ASKED}"}))),
    "a wrong reference": ("chat/completions", chat(**schema({"$ref": f"#/{ASKED}"}))),
    "a wrong keyword": ("chat/completions", chat(**schema({"type": ASKED, ASKED: ASKED}))),
    "a wrong regex": ("chat/completions", chat(structured_outputs={"regex": f"({ASKED}"})),
    "a wrong grammar": ("chat/completions", chat(structured_outputs={"grammar": f"start: {ASKED} ("})),
    "a wrong tool": (
        "chat/completions",
        chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": ASKED}}),
    ),
    "a wrong bias": ("chat/completions", chat(logit_bias={ASKED: 1})),
    "a wrong prompt": ("completions", {"model": "speaker", "prompt": {ASKED: ASKED}}),
    "a wrong input": ("responses", {"model": "speaker", "input": [{"type": ASKED, ASKED: ASKED}]}),
    "a wrong message": ("messages", {"model": "speaker", "max_tokens": 8, "messages": [{"role": ASKED}]}),
}

BODIES = {
    "no JSON": f'{{"model": "speaker", "messages": "{ASKED}'.encode(),
    "no UTF-8": b'{"model": "speaker", "messages": "' + ASKED.encode() + b'\xff"}',
    "no object": f'["{ASKED}"]'.encode(),
    "no end": b"[" * 100_000 + ASKED.encode(),
    "too large": json.dumps({**chat(), "user": ASKED * 30_000}).encode(),
}

HEADERS = {
    "a priority": {"X-Priority": ASKED},
    "an idempotency key": {"Idempotency-Key": ASKED},
    "the same idempotency key": {"Idempotency-Key": ASKED},
    "a long idempotency key": {"Idempotency-Key": ASKED * 20},
    "a request id that is none": {"X-Request-Id": f"{ASKED} {ASKED}"},
    "a header that nobody knows": {"X-Else": ASKED, "User-Agent": ASKED, "Cookie": f"a={ASKED}", "Referer": ASKED},
    "a key that is none": {"Authorization": f"Bearer {ASKED}"},
    "a type that is none": {"Content-Type": ASKED},
}


def ask_all(run: Run) -> None:
    """Say the canary in every way; each answer is what it should be, so that each way has been gone."""
    with run.client() as client:
        for what, (route, body) in GOOD.items():
            answer = client.post(f"/v1/{route}", json=body)
            assert answer.status_code == 200, (what, answer.text)
            assert holds(answer.content, ANSWERED) or "json_schema" in str(body), (what, answer.text)
        for what, (route, body) in BAD.items():
            answer = client.post(f"/v1/{route}", json=body)
            assert 400 <= answer.status_code < 500, (what, answer.text)
        for what, content in BODIES.items():
            answer = client.post("/v1/chat/completions", content=content, headers={"Content-Type": "application/json"})
            assert 400 <= answer.status_code < 500, (what, answer.text)
        for what, headers in HEADERS.items():
            answer = client.post("/v1/chat/completions", json=chat(), headers=headers)
            assert answer.status_code in {200, 400, 401, 409, 415}, (what, answer.text)
        for seed in range(len(WAYS)):
            for stream in (False, True):
                answer = client.post("/v1/chat/completions", json=chat("echo", seed=seed, stream=stream))
                assert answer.status_code in {200, 400, 429, 502, 503}, (WAYS[seed], answer.text)
        client.get("/v1/models", params={ASKED: ASKED})
        client.get("/v1/usage", params={"group_by": ASKED})
        client.get(f"/v1/{IN_A_PATH}", params={"q": ASKED})
    leave_early(run)
    ask_the_engine(run)


def leave_early(run: Run) -> None:
    """In mid-stream, before the answer, in mid-body; and with what is no HTTP at all."""
    long = chat(max_tokens=400, stream=True)
    with run.client() as client:
        for route, body in (
            ("chat/completions", long),
            ("responses", {"model": "speaker", "input": ASKED, "stream": True}),
        ):
            with client.stream("POST", f"/v1/{route}", json=body) as answer:
                next(answer.iter_bytes())
        with suppress(httpx.TimeoutException):
            client.post("/v1/chat/completions", json=chat(max_tokens=400), timeout=0.05)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {OPERATOR_KEY}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    for said in (f'{head}{{"messages": "{ASKED}', f"{ASKED} / HTTP/9\r\n\r\n", f"GET / HTTP/1.1\r\n{ASKED}\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", run.platform.port), timeout=10) as connection:
            connection.sendall(said.encode())


def ask_the_engine(run: Run) -> None:
    """Without the gateway before it."""
    with httpx.Client(
        base_url=run.engine.root, headers={"Authorization": f"Bearer {ENGINE_KEY}"}, timeout=60
    ) as client:
        answer = client.post("/v1/chat/completions", json=chat("caller", max_tokens=32))
        assert holds(answer.content, ANSWERED), answer.text
        assert client.post("/tokenize", json={"model": "caller", "prompt": ASKED}).status_code == 200
        assert client.post("/v1/chat/completions", json=chat(ASKED)).status_code == 404
        assert client.post("/v1/chat/completions", content=BODIES["no JSON"]).status_code >= 400
        with client.stream("POST", "/v1/chat/completions", json=chat("caller", stream=True, max_tokens=32)) as stream:
            next(stream.iter_bytes())


def kill_the_engine_in_mid_stream(run: Run) -> None:
    (child,) = run.platform.children()
    request = chat(max_tokens=400, stream=True)
    with (
        run.client() as client,
        suppress(httpx.HTTPError),
        client.stream("POST", "/v1/chat/completions", json=request) as answer,
    ):
        chunks = answer.iter_bytes()
        next(chunks)
        os.kill(child, signal.SIGKILL)
        for _ in chunks:
            pass
    with run.client() as client:
        client.post("/v1/chat/completions", json=chat())
    until("the engine is back", lambda: run.platform.health()["pools"]["speaker"]["ready"])


def told_to_watchers(run: Run) -> dict[str, bytes]:
    """What each process prints, and tells whoever watches it."""
    return {
        "gateway /metrics": run.platform.get("/metrics"),
        "gateway /health": run.platform.get("/health"),
        "gateway output": run.platform.output.read_bytes(),
        "engine /metrics": run.engine.get("/metrics"),
        "engine /health": run.engine.get("/health"),
        "engine output": run.engine.output.read_bytes(),
    }


def in_the_warehouse(run: Run, text: str) -> bool:
    return any(name.endswith(".parquet") for name in where(run.data, text))


def create(client: httpx.Client, kind: str, **fields: Any) -> dict[str, Any]:
    answer = client.post(f"/admin/v1/{kind}", json=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def key_of(run: Run, tenant: str, **tags: str) -> str:
    with run.client() as client:
        create(client, "tenants", id=tenant, log_content=tenant == "open", replay_outputs=tenant == "open")
        secret: str = create(client, "keys", tenant=tenant, tags=tags)["secret"]
    with run.client(secret) as client:
        until("the key is known", lambda: client.get("/v1/models").status_code == 200)
    return secret


def test_nothing_that_is_asked_or_answered_stays(run: Run) -> None:
    with run.client(key_of(run, "closed", team=IN_A_TAG)) as client:
        answer = client.post("/v1/chat/completions", json=chat(), headers={"X-Request-Id": IN_A_REQUEST_ID})
        assert answer.status_code == 200
    ask_all(run)
    kill_the_engine_in_mid_stream(run)
    until("the warehouse has the first request", lambda: in_the_warehouse(run, IN_A_TAG))

    for canary in (ASKED, ANSWERED):
        assert where(run.data, canary) == set()
        assert [what for what, told in told_to_watchers(run).items() if holds(told, canary)] == []


def test_what_is_kept_by_its_nature_is_where_it_belongs(run: Run) -> None:
    """And so the search of the other tests does find what is there."""
    tagged, named = where(run.data, IN_A_TAG), where(run.data, IN_A_REQUEST_ID)
    assert any(name.endswith(".parquet") for name in tagged), tagged
    assert "forebay.db" in " ".join(tagged), tagged
    assert any(name.endswith(".parquet") for name in named), named
    told = told_to_watchers(run)
    assert [what for what, said in told.items() if holds(said, IN_A_REQUEST_ID)] == ["gateway output"]
    assert [what for what, said in told.items() if holds(said, IN_A_PATH)] == ["gateway output"]
    assert where(run.data, IN_A_PATH) == set()
    assert [what for what, said in told.items() if holds(said, IN_A_TAG)] == []


def test_a_tenant_that_opted_in_finds_it_under_its_own_prefix_only(run: Run) -> None:
    body = {"model": "speaker", "messages": messages(OPTED_IN), "max_tokens": 8, "temperature": 0}
    with run.client(key_of(run, "open")) as client:
        whole = client.post("/v1/chat/completions", json=body, headers={"X-Request-Id": "whole"})
        client.post("/v1/chat/completions", json={**body, "stream": True}, headers={"X-Request-Id": "stream"})
        kept = client.post("/v1/chat/completions", json=body, headers={"Idempotency-Key": "one"})

        def again() -> httpx.Response:
            answer = client.post("/v1/chat/completions", json=body, headers={"Idempotency-Key": "one"})
            assert answer.json() == kept.json()
            return answer

        # Until it is on the shelf, the first request itself gives the answer.
        until("the answer comes from the shelf", lambda: again().headers.get("Idempotent-Replayed") == "true")
    root = run.data / "objects"
    assert len(list((root / "replays" / "open").iterdir())) == 1
    until("all three are kept", lambda: len(list((root / "content" / "open").rglob("*.json"))) == 3)

    documents = {
        document["request_id"]: document
        for path in (root / "content" / "open").rglob("*.json")
        for document in [json.loads(path.read_bytes())]
    }
    assert documents["whole"]["asked"]["messages"] == body["messages"]
    assert documents["whole"]["answered"]["choices"] == whole.json()["choices"]
    assert ANSWERED in documents["stream"]["answered"]
    assert {document["tenant"] for document in documents.values()} == {"open"}

    places = where(run.data, OPTED_IN) | where(run.data, ANSWERED)
    assert {"/".join(name.split("/")[:3]) for name in places} == {"objects/content/open", "objects/replays/open"}
    assert {path.name for path in (root / "content").iterdir()} == {"open"}
    for path in (root / "content", *(root / "content").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    for told in told_to_watchers(run).values():
        assert not holds(told, OPTED_IN)
        assert not holds(told, ANSWERED)


def test_it_goes_when_its_retention_is_over_and_with_its_tenant(run: Run) -> None:
    kept = run.data / "objects" / "content" / "open"
    days = list(kept.iterdir())
    today = datetime.now(UTC).date()
    old, young = kept / (today - timedelta(days=31)).isoformat(), kept / (today - timedelta(days=29)).isoformat()
    for other in (old, young):
        other.mkdir(mode=0o700)
        (other / "req_1.json").write_bytes(b"{}")
    until("the older day is gone", lambda: not old.exists(), run.platform.process, run.platform.output, 30)
    assert young.exists()
    assert all(day.exists() for day in days)

    with run.client() as client:
        for key in client.get("/admin/v1/keys", params={"tenant": "open"}).json()["data"]:
            assert client.delete(f"/admin/v1/keys/{key['id']}").status_code == 204
        assert client.delete("/admin/v1/tenants/open").status_code == 204
    assert not where(run.data, OPTED_IN), "it goes with its tenant, not with the next sweep"
    assert not kept.exists()


def test_nothing_is_left_once_it_has_stopped(run: Run) -> None:
    run.platform.terminate()
    run.engine.terminate()
    for canary in (ASKED, ANSWERED, OPTED_IN):
        assert where(run.data, canary) == set()
        assert not holds(run.platform.output.read_bytes(), canary)
        assert not holds(run.engine.output.read_bytes(), canary)
