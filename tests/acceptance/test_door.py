"""What callers get from the platform's door, good and bad."""

import json
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest

from tests.acceptance.processes import ForebayProcess, until

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
BOTH = pytest.mark.parametrize("model", ["assistant-large", "assistant-small"])


@BOTH
def test_chat_answers(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=16, temperature=0)
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.model == model
    assert answer.usage is not None
    assert 0 < answer.usage.completion_tokens <= 16


@BOTH
def test_a_stream_says_what_the_whole_answer_says(client: openai.OpenAI, model: str) -> None:
    whole = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=12, temperature=0)
    stream = client.chat.completions.create(
        model=model,
        messages=QUESTION,
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert {chunk.model for chunk in chunks} == {model}
    assert chunks[-1].usage is not None
    assert len(chunks) > 3


def test_completions_answer(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="assistant-large", prompt="One, two, three,", max_tokens=4, temperature=0)
    assert "four" in answer.choices[0].text
    streamed = client.completions.create(
        model="assistant-large", prompt="One, two, three,", max_tokens=4, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in streamed) == answer.choices[0].text


def test_an_alias_answers_by_its_own_name(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="team/writer", messages=QUESTION, max_tokens=4)
    assert answer.model == "team/writer"
    chunks = list(client.chat.completions.create(model="team/writer", messages=QUESTION, max_tokens=4, stream=True))
    assert {chunk.model for chunk in chunks} == {"team/writer"}
    assert client.models.retrieve("team/writer").id == "team/writer"


def test_a_pool_may_be_a_server_elsewhere(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="elsewhere", messages=QUESTION, max_tokens=8, temperature=0
    )
    assert raw.headers["X-Forebay-Pool"] == "elsewhere"
    answer = raw.parse()
    assert answer.model == "elsewhere"
    chunks = list(
        client.chat.completions.create(model="elsewhere", messages=QUESTION, max_tokens=8, temperature=0, stream=True)
    )
    assert {chunk.model for chunk in chunks} == {"elsewhere"}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == answer.choices[0].message.content


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()][:3] == ["assistant-large", "assistant-small", "team/writer"]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_models_tell_their_window_where_it_is_known(client: openai.OpenAI) -> None:
    windows = {model.id: (model.model_extra or {}).get("max_model_len", "not sent") for model in client.models.list()}
    assert windows["team/writer"] == windows["assistant-small"] == 2048
    assert 2048 < windows["assistant-large"] <= 8192  # what its KV cache holds, which differs between machines
    assert windows["elsewhere"] == 512
    assert windows["nobody"] == "not sent"


def test_the_printed_curl_line_works(platform: ForebayProcess) -> None:
    line = next(line for line in platform.printed().splitlines() if line.startswith("curl "))
    answer = subprocess.run(shlex.split(line), capture_output=True, check=True, timeout=120)
    assert json.loads(answer.stdout)["choices"][0]["message"]["content"]


def test_the_printed_python_works(platform: ForebayProcess) -> None:
    printed = platform.printed()
    code = re.search(r"from openai import OpenAI[^\n]*\n.*?print\([^\n]*\n", printed, re.DOTALL)
    assert code is not None, printed
    executed = subprocess.run([sys.executable, "-c", code[0]], capture_output=True, text=True, check=True, timeout=120)
    assert executed.stdout.strip()


@pytest.mark.parametrize("priority", ["interactive", "standard", "batch", "Batch"])
def test_each_priority_class_is_served(client: openai.OpenAI, priority: str) -> None:
    answer = client.chat.completions.create(
        model="assistant-large", messages=QUESTION, max_tokens=2, extra_headers={"X-Priority": priority}
    )
    assert answer.choices


def test_unknown_priority_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="interactive, standard, batch") as refused:
        client.chat.completions.create(
            model="assistant-large", messages=QUESTION, extra_headers={"X-Priority": "urgent"}
        )
    assert refused.value.param == "X-Priority"


def test_a_client_s_own_priority_and_salt_are_not_passed_on(client: openai.OpenAI) -> None:
    """Both would be refused by the replica, being of the wrong kinds, if they reached it."""
    answer = client.chat.completions.create(
        model="elsewhere", messages=QUESTION, max_tokens=2, extra_body={"priority": "first", "cache_salt": 7}
    )
    assert answer.choices


def test_wrong_key(platform: ForebayProcess) -> None:
    stranger = openai.OpenAI(base_url=platform.url, api_key="fb-not-the-key-0123456789", max_retries=0)
    with pytest.raises(openai.AuthenticationError) as refused:
        stranger.chat.completions.create(model="assistant-large", messages=QUESTION)
    assert refused.value.code == "invalid_api_key"
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    assert httpx.get(f"{platform.url}/models").status_code == 401
    assert httpx.post(f"{platform.url}/completions", json={}).status_code == 401


def test_unknown_model(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="assistant-large") as refused:
        client.chat.completions.create(model="gpt-99", messages=QUESTION)
    assert refused.value.code == "model_not_found"
    assert refused.value.param == "model"


def test_over_long_prompt(client: openai.OpenAI) -> None:
    for model in ("assistant-large", "elsewhere"):
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model=model, messages=[{"role": "user", "content": "word " * 20_000}])
        assert refused.value.code == "context_length_exceeded"


def test_over_long_prompt_of_a_stream_is_refused_with_its_status(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="assistant-large", messages=[{"role": "user", "content": "word " * 20_000}], stream=True
        )
    assert refused.value.code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("field", "value"),
    [("messages", []), ("temperature", "hot"), ("max_tokens", 0), ("messages", [{"role": "robot", "content": "?"}])],
)
@pytest.mark.parametrize("model", ["assistant-large", "elsewhere"])
def test_wrong_fields(client: openai.OpenAI, model: str, field: str, value: object) -> None:
    """Told by the door for our own engine, relayed in the server's words from one elsewhere."""
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            **{"model": model, "messages": QUESTION, field: value}  # pyright: ignore[reportArgumentType, reportCallIssue]
        )
    assert (refused.value.param or "").startswith(field)


def test_problems_are_rfc_9457(platform: ForebayProcess, api_key: str) -> None:
    post = f"{platform.url}/chat/completions"
    headers = {"Authorization": f"Bearer {api_key}"}
    cases = [
        (httpx.post(post, content=b'{"model": ', headers=headers), 400, "malformed-json"),
        (httpx.post(post, content=b"x" * 2_000_000, headers=headers), 413, "body-too-large"),
        (
            httpx.post(post, content=b"a=b", headers=headers | {"Content-Type": "text/plain"}),
            415,
            "unsupported-media-type",
        ),
        (httpx.get(f"{platform.url}/nothing-here", headers=headers), 404, "not-found"),
        (httpx.get(post, headers=headers), 405, "method-not-allowed"),
    ]
    for answer, status, kind in cases:
        assert answer.status_code == status, answer.text
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        problem = answer.json()
        assert problem["type"].endswith(kind)
        assert problem["error"]["message"]
    assert "byte" in cases[0][0].json()["detail"]


def test_a_server_elsewhere_that_is_not_there(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as refused:
        client.chat.completions.create(model="nobody", messages=QUESTION)
    assert refused.value.status_code == 503
    assert refused.value.code == "capacity_unavailable"
    assert int(refused.value.response.headers["Retry-After"]) >= 1


def test_a_wrong_configuration_of_a_server_elsewhere_is_not_the_client_s_fault(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="upstream_model") as refused:
        client.chat.completions.create(model="wrong-name", messages=QUESTION)
    assert refused.value.status_code == 502
    with pytest.raises(openai.InternalServerError) as refused:
        client.chat.completions.create(model="wrong-key", messages=QUESTION)
    assert refused.value.status_code == 503
    assert "not-the-engine-s-key" not in refused.value.response.text


def test_health_tells_of_each_pool(platform: ForebayProcess) -> None:
    report = platform.health()
    assert report["status"] == "degraded"
    assert report["pools"]["assistant-large"]["ready"]
    assert not report["pools"]["nobody"]["ready"]
    assert httpx.get(f"{platform.root}/health/ready").status_code == 503


def test_metrics_count(platform: ForebayProcess, client: openai.OpenAI) -> None:
    series = 'forebay_requests_total{pool="assistant-small",route="chat/completions",status="200"}'
    before = metric(platform, series)
    client.chat.completions.create(model="assistant-small", messages=QUESTION, max_tokens=1)
    assert metric(platform, series) == before + 1
    assert metric(platform, 'forebay_requests_in_flight{pool="assistant-small"}') == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_its_request(
    platform: ForebayProcess, engine: ForebayProcess, api_key: str, stream: bool
) -> None:
    """Observed on the engine elsewhere, whose metrics can be read here."""
    body = {"model": "elsewhere", "messages": QUESTION, "max_tokens": 400, "temperature": 1.5, "stream": stream}
    headers = {"Authorization": f"Bearer {api_key}"}
    with httpx.Client(timeout=120) as http:
        if stream:
            with http.stream("POST", f"{platform.url}/chat/completions", json=body, headers=headers) as answer:
                assert b"data: " in next(answer.iter_raw())
                assert metric(engine, "vllm:num_requests_running") == 1
        else:
            with pytest.raises(httpx.ReadTimeout):
                http.post(f"{platform.url}/chat/completions", json=body, headers=headers, timeout=0.5)
    until("the engine runs nothing", lambda: metric(engine, "vllm:num_requests_running") == 0, limit_s=20)
    assert metric(engine, 'vllm:request_success_total{finished_reason="abort"') >= 1


def test_the_key_is_kept_for_its_owner_alone(data_dir: Path) -> None:
    assert stat.S_IMODE((data_dir / "api-key").stat().st_mode) == 0o600


def metric(process: ForebayProcess, series: str) -> float:
    """The value of the series whose line begins so; 0 where there is none."""
    for line in process.get("/metrics").decode().splitlines():
        if line.startswith(series):
            return float(line.rsplit(" ", 1)[1])
    return 0.0
