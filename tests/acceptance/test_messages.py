"""`/v1/messages`, with Anthropic's own client."""

import os
import signal
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.acceptance.conftest import SCRIPTED_KEY
from tests.acceptance.processes import ForebayProcess, until
from tests.acceptance.test_door import metric
from tests.acceptance.test_life import KEY, platform_of, write_configuration

HI: Any = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0}
WEATHER: Any = {
    "name": "weather",
    "description": "Tells the weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def client_of(process: ForebayProcess, api_key: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=process.root, api_key=api_key, max_retries=0, timeout=120)


@pytest.fixture(scope="module")
def claude(platform: ForebayProcess, api_key: str) -> anthropic.Anthropic:
    return client_of(platform, api_key)


@pytest.fixture(scope="module")
def actor(scripted: ForebayProcess) -> anthropic.Anthropic:
    return client_of(scripted, SCRIPTED_KEY)


@pytest.mark.parametrize("model", ["assistant-large", "team/writer", "elsewhere"])
def test_a_question_is_answered_whole_and_streamed(claude: anthropic.Anthropic, model: str) -> None:
    asked: dict[str, Any] = {
        "model": model,
        "max_tokens": 16,
        "messages": HI,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "extra_body": GREEDY,
    }
    whole = claude.messages.create(**asked)
    (block,) = whole.content
    assert block.type == "text"
    assert "Paris" in block.text
    assert (whole.model, whole.role, whole.stop_reason) == (model, "assistant", "end_turn")
    assert 0 < whole.usage.output_tokens <= 16
    with claude.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == block.text
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens == whole.usage.output_tokens
    counted = [each.input_tokens + (each.cache_read_input_tokens or 0) for each in (whole.usage, final.usage)]
    assert counted[0] == counted[1] > 10


def test_a_bearer_key_is_taken_too(platform: ForebayProcess, api_key: str) -> None:
    client = anthropic.Anthropic(base_url=platform.root, auth_token=api_key, max_retries=0, timeout=120)
    assert client.messages.create(model="assistant-large", max_tokens=1, messages=HI).stop_reason == "max_tokens"


def test_the_assistant_s_turn_is_continued(claude: anthropic.Anthropic) -> None:
    prefilled = [*HI, {"role": "assistant", "content": "The capital of"}]
    answer = claude.messages.create(model="assistant-large", max_tokens=16, messages=prefilled, extra_body=GREEDY)
    (block,) = answer.content
    assert block.type == "text"
    assert block.text.startswith(" France is Paris")


def test_stop_sequences(claude: anthropic.Anthropic) -> None:
    asked: dict[str, Any] = {
        "model": "assistant-large",
        "max_tokens": 32,
        "messages": HI,
        "stop_sequences": ["Berlin", "Paris"],
        "extra_body": GREEDY,
    }
    answer = claude.messages.create(**asked)
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "Paris")
    with claude.messages.stream(**asked) as stream:
        final = stream.get_final_message()
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", "Paris")
    assert final.content == answer.content or final.content[0].text == answer.content[0].text  # pyright: ignore


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_a_call_is_forced(claude: anthropic.Anthropic, choice: Any) -> None:
    asked: dict[str, Any] = {
        "model": "assistant-large",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [WEATHER],
        "tool_choice": {**choice, "disable_parallel_tool_use": True},
        "extra_body": GREEDY,
    }
    answer = claude.messages.create(**asked)
    (call,) = answer.content
    assert call.type == "tool_use"
    assert call.name == "weather"
    assert set(call.input) == {"city"}
    assert answer.stop_reason == "tool_use"
    with claude.messages.stream(**asked) as stream:
        (streamed,) = stream.get_final_message().content
    assert streamed.type == "tool_use"
    assert streamed.input == call.input


def test_an_answer_of_a_given_form(claude: anthropic.Anthropic) -> None:
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
    answer = claude.messages.create(
        model="assistant-large",
        max_tokens=40,
        messages=HI,
        output_config={"format": {"type": "json_schema", "schema": {**schema, "additionalProperties": False}}},
        extra_body=GREEDY,
    )
    (block,) = answer.content
    assert block.type == "text"
    assert '"city"' in block.text


def test_thoughts_words_and_calls(actor: anthropic.Anthropic) -> None:
    asked: dict[str, Any] = {"model": "actor", "max_tokens": 64, "tools": [WEATHER], "extra_body": GREEDY}
    question: Any = {"role": "user", "content": "Weather?"}
    whole = actor.messages.create(**asked, messages=[question])
    with actor.messages.stream(**asked, messages=[question]) as stream:
        streamed = stream.get_final_message()
    for answer in (whole, streamed):
        thinking, text, call = answer.content
        assert thinking.type == "thinking"
        assert "Rain" in thinking.thinking
        assert text.type == "text"
        assert text.text.strip() == "Let me see."
        assert call.type == "tool_use"
        assert (call.name, call.input) == ("weather", {"city": "Paris"})
        assert answer.stop_reason == "tool_use"
    result: Any = {"type": "tool_result", "tool_use_id": whole.content[2].id, "content": "Rain."}  # pyright: ignore
    turns: Any = [{"role": "assistant", "content": whole.content}, {"role": "user", "content": [result]}]
    assert actor.messages.create(**asked, messages=[question, *turns]).content


def test_errors_raise_anthropic_s_classes(
    claude: anthropic.Anthropic, platform: ForebayProcess, actor: anthropic.Anthropic
) -> None:
    def refused(kind: type[anthropic.APIStatusError], client: anthropic.Anthropic = claude, **asked: Any) -> Any:
        with pytest.raises(kind) as error:
            client.messages.create(**{"model": "assistant-large", "max_tokens": 4, "messages": HI} | asked)
        body: Any = error.value.body
        assert body["type"] == "error"
        assert body["error"]["message"]
        assert body["request_id"] == error.value.request_id
        return body["error"]["type"]

    assert refused(anthropic.NotFoundError, model="gpt-99") == "not_found_error"
    assert refused(anthropic.BadRequestError, max_tokens=0) == "invalid_request_error"
    image: Any = {"type": "image", "source": {"type": "url", "url": "u"}}
    assert (
        refused(anthropic.BadRequestError, messages=[{"role": "user", "content": [image]}]) == "invalid_request_error"
    )
    long: Any = [{"role": "user", "content": "word " * 2000}]
    assert refused(anthropic.BadRequestError, model="elsewhere", messages=long) == "invalid_request_error"
    assert refused(anthropic.BadRequestError, model="elsewhere", messages=long, stream=True) == "invalid_request_error"
    large: Any = [{"role": "user", "content": "x" * 2_000_000}]
    assert refused(anthropic.RequestTooLargeError, messages=large) == "request_too_large"
    assert refused(anthropic.InternalServerError, model="nobody") == "overloaded_error"
    stranger = client_of(platform, "fb-not-the-key-0123456789")
    assert refused(anthropic.AuthenticationError, stranger) == "authentication_error"
    header = {"X-Priority": "interactive"}
    assert refused(anthropic.PermissionDeniedError, actor, model="actor", extra_headers=header) == "permission_error"


def test_models_are_listed_with_anthropic_s_key(claude: anthropic.Anthropic, platform: ForebayProcess) -> None:
    assert "assistant-large" in [model.id for model in claude.models.list()]
    assert claude.models.retrieve("team/writer").id == "team/writer"
    assert "x-api-key" in httpx.get(f"{platform.url}/models").json()["detail"]


def test_what_is_not_offered_says_so(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="not counted beforehand") as missing:
        claude.messages.count_tokens(model="assistant-large", messages=HI)
    assert missing.value.body["error"]["type"] == "not_found_error"  # pyright: ignore
    with pytest.raises(anthropic.NotFoundError, match="batches are not offered"):
        claude.messages.batches.list()
    with pytest.raises(anthropic.NotFoundError, match="batches are not offered"):
        claude.messages.batches.retrieve("msgbatch_1")


def test_what_the_engine_refuses_is_named_as_it_was_sent(claude: anthropic.Anthropic) -> None:
    def refused(model: str = "assistant-large", **asked: Any) -> str:
        with pytest.raises(anthropic.BadRequestError) as error:
            claude.messages.create(model=model, max_tokens=4, messages=asked.pop("messages", HI), **asked)
        return str(error.value.body["error"]["message"])  # pyright: ignore

    schema: Any = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    for stream in (False, True):
        format_: Any = {"format": {"type": "json_schema", "schema": schema}}
        assert refused(output_config=format_, stream=stream).startswith("output_config.format.schema")
        tools: Any = [{"name": "f", "input_schema": {"type": "string"}}]
        assert refused(tools=tools, tool_choice={"type": "any"}, stream=stream).startswith("tools[0].input_schema:")
    prefilled: Any = [*HI, {"role": "assistant", "content": "The"}]
    assert refused("elsewhere", messages=prefilled).startswith("messages[1]")
    assert refused("elsewhere", extra_body={"top_k": 3}).startswith("top_k")


def test_what_is_no_json_has_anthropic_s_shape_too(platform: ForebayProcess, api_key: str) -> None:
    post, headers = f"{platform.url}/messages", {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
    for answer, status in (
        (httpx.post(post, content=b'{"model": ', headers=headers), 400),
        (httpx.post(post, content=b"a=b", headers=headers | {"Content-Type": "text/plain"}), 415),
        (httpx.post(post, content=b"{}"), 401),
    ):
        assert answer.status_code == status
        assert answer.json()["type"] == "error"
    chat = httpx.post(f"{platform.url}/chat/completions", json={}, headers=headers)
    assert chat.status_code == 401, "the header is Anthropic's and opens no other door"


def test_headers(claude: anthropic.Anthropic) -> None:
    raw = claude.messages.with_raw_response.create(
        model="assistant-large", max_tokens=1, messages=HI, extra_body={"verbosity_of_trees": 3}
    )
    assert raw.headers["X-Forebay-Ignored-Fields"] == "verbosity_of_trees"
    assert raw.headers["request-id"] == raw.headers["X-Request-Id"]


def test_a_client_that_leaves_ends_its_request(claude: anthropic.Anthropic, engine: ForebayProcess) -> None:
    """Observed on the engine elsewhere, whose metrics can be read here."""
    asked: dict[str, Any] = {"model": "elsewhere", "max_tokens": 400, "messages": HI}
    aborted = metric(engine, 'vllm:request_success_total{finished_reason="abort"')
    with claude.messages.create(**asked, stream=True) as stream:
        next(iter(stream))
        assert metric(engine, "vllm:num_requests_running") == 1
    until("the engine runs nothing", lambda: metric(engine, "vllm:num_requests_running") == 0, limit_s=20)
    assert metric(engine, 'vllm:request_success_total{finished_reason="abort"') == aborted + 1


def test_a_replica_that_dies_ends_both_kinds_of_streams_with_an_error(tmp_path: Path) -> None:
    write_configuration(tmp_path)
    with platform_of(tmp_path) as process:
        messages = client_of(process, KEY).messages.create(model="small", max_tokens=8000, messages=HI, stream=True)
        client = openai.OpenAI(base_url=process.url, api_key=KEY, max_retries=0, timeout=120)
        response = client.responses.create(model="small", input="Count.", max_output_tokens=8000, stream=True)
        next(iter(messages))
        next(iter(response))
        (child,) = process.children()
        os.kill(child, signal.SIGKILL)
        with pytest.raises(anthropic.APIStatusError, match="broke off") as broken:
            for _ in messages:
                pass
        assert broken.value.body == {"type": "error", "error": broken.value.body["error"]}  # pyright: ignore
        seen: list[str] = []
        with pytest.raises(openai.APIError, match="broke off"):
            seen.extend(event.type for event in response)
        assert seen[-1] == "response.failed"


def test_a_gateway_that_stops_ends_a_stream_in_its_own_way(tmp_path: Path) -> None:
    write_configuration(tmp_path, more="gateway.drain_timeout_s = 0.5")
    with platform_of(tmp_path) as process:
        stream = client_of(process, KEY).messages.create(model="small", max_tokens=8000, messages=HI, stream=True)
        next(iter(stream))
        process.process.send_signal(signal.SIGINT)
        with pytest.raises(anthropic.APIStatusError) as stopped:
            for _ in stream:
                pass
        assert stopped.value.body["error"]["type"] == "overloaded_error"  # pyright: ignore
        assert process.process.wait(60) == 0
