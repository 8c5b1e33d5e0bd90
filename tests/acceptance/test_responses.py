"""`/v1/responses`, with OpenAI's own client."""

from typing import Any

import openai
import pydantic
import pytest

from tests.acceptance.conftest import SCRIPTED_KEY
from tests.acceptance.processes import ForebayProcess, until
from tests.acceptance.test_door import metric

QUESTION = "What is the capital of France?"
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


@pytest.fixture(scope="module")
def actor(scripted: ForebayProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=scripted.url, api_key=SCRIPTED_KEY, max_retries=0, timeout=120)


class Capital(pydantic.BaseModel):
    """What the answer has to be."""

    city: str = pydantic.Field(max_length=20)
    inhabitants: int = pydantic.Field(ge=0, le=99_000_000)


@pytest.mark.parametrize("model", ["assistant-large", "team/writer", "elsewhere"])
def test_a_text_is_answered_whole_and_streamed(client: openai.OpenAI, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "input": QUESTION, "max_output_tokens": 16, "temperature": 0}
    whole = client.responses.create(**asked, instructions="Be brief.", metadata={"a": "b"})
    assert "Paris" in whole.output_text
    assert (whole.model, whole.status, whole.error) == (model, "completed", None)
    assert (whole.instructions, whole.max_output_tokens, whole.metadata) == ("Be brief.", 16, {"a": "b"})
    assert whole.usage is not None
    assert 0 < whole.usage.output_tokens <= 16
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    events = list(client.responses.create(**asked, instructions="Be brief.", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == whole.output_text
    assert last.response.usage == whole.usage


def test_a_streamed_answer_is_gathered(client: openai.OpenAI) -> None:
    with client.responses.stream(model="assistant-large", input=QUESTION, temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert len(deltas) > 3
    assert final.output_text == "".join(deltas)


def test_an_answer_that_is_cut_off(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="assistant-large", input=QUESTION, max_output_tokens=2)
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    *_, last = client.responses.create(model="assistant-large", input=QUESTION, max_output_tokens=2, stream=True)
    assert last.type == "response.incomplete"


def test_a_conversation_goes_on_with_its_answers(client: openai.OpenAI) -> None:
    conversation: list[Any] = [{"role": "user", "content": QUESTION}]
    first = client.responses.create(model="assistant-large", input=conversation, temperature=0)
    conversation += [*first.output, {"role": "user", "content": "In which country is it? Answer in one word."}]
    second = client.responses.create(model="assistant-large", input=conversation, temperature=0, max_output_tokens=32)
    assert "France" in second.output_text
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.total_tokens


def test_an_answer_is_parsed(client: openai.OpenAI) -> None:
    answer = client.responses.parse(
        model="assistant-large", input=QUESTION, text_format=Capital, max_output_tokens=100, temperature=0
    )
    assert isinstance(answer.output_parsed, Capital)
    with client.responses.stream(
        model="assistant-large", input=QUESTION, text_format=Capital, max_output_tokens=100, temperature=0
    ) as stream:
        stream.until_done()
        assert stream.get_final_response().output_parsed == answer.output_parsed


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
def test_a_call_is_forced(client: openai.OpenAI, choice: Any) -> None:
    answer = client.responses.create(
        model="assistant-large",
        input="What is the weather in Paris?",
        tools=[WEATHER],
        tool_choice=choice,
        parallel_tool_calls=False,
        max_output_tokens=100,
        temperature=0,
    )
    (call,) = answer.output
    assert call.type == "function_call"
    assert call.name == "weather"
    assert "city" in call.arguments


def test_log_probabilities(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "assistant-large",
        "input": QUESTION,
        "max_output_tokens": 3,
        "temperature": 0,
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    }
    answer = client.responses.create(**asked)
    (message,) = answer.output
    assert message.type == "message"
    content = message.content[0]
    assert content.type == "output_text"
    assert content.logprobs is not None
    assert "".join(each.token for each in content.logprobs) == content.text
    assert {len(each.top_logprobs) for each in content.logprobs} == {2}
    deltas = [
        event for event in client.responses.create(**asked, stream=True) if event.type == "response.output_text.delta"
    ]
    assert [each.token for delta in deltas for each in delta.logprobs] == [each.token for each in content.logprobs]


def test_thoughts_words_and_calls(actor: openai.OpenAI) -> None:
    whole = actor.responses.create(model="actor", input="Weather?", tools=[WEATHER], temperature=0)
    assert [item.type for item in whole.output] == ["reasoning", "message", "function_call"]
    reasoning, _, call = whole.output
    assert reasoning.type == "reasoning"
    assert reasoning.content is not None
    assert "Rain" in reasoning.content[0].text
    assert whole.output_text.strip() == "Let me see."
    assert call.type == "function_call"
    assert call.arguments == '{"city": "Paris"}'
    with actor.responses.stream(model="actor", input="Weather?", tools=[WEATHER], temperature=0) as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.reasoning_text.delta" in types
    assert "response.function_call_arguments.delta" in types
    assert [(item.type, getattr(item, "arguments", None)) for item in final.output] == [
        ("reasoning", None),
        ("message", None),
        ("function_call", call.arguments),
    ]
    assert final.output_text == whole.output_text
    answered: list[Any] = [
        {"role": "user", "content": "Weather?"},
        *whole.output,
        {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."},
    ]
    assert actor.responses.create(model="actor", input=answered, tools=[WEATHER], temperature=0).output


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("store", True),
        ("background", True),
        ("conversation", "conv_1"),
        ("truncation", "auto"),
        ("tools", [{"type": "web_search"}]),
        ("max_output_tokens", 0),
    ],
)
def test_what_is_not_done_here_is_refused_by_name(client: openai.OpenAI, field: str, value: Any) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": "assistant-large", "input": QUESTION, field: value})
    assert (refused.value.param or "").startswith(field)


def test_what_the_engine_refuses_is_named_as_it_was_sent(client: openai.OpenAI) -> None:
    def refused(**asked: Any) -> openai.BadRequestError:
        with pytest.raises(openai.BadRequestError) as error:
            client.responses.create(**{"model": "assistant-large", "input": QUESTION} | asked)
        return error.value

    schema: Any = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    for stream in (False, True):
        format_ = {"type": "json_schema", "name": "n", "schema": schema}
        assert (refused(text={"format": format_}, stream=stream).param or "").startswith("text.format.schema")
        tools = [{"type": "function", "name": "f", "parameters": {"type": "string"}}]
        assert refused(tools=tools, tool_choice="required", stream=stream).param == "tools[0].parameters"
        assert refused(max_output_tokens=1_000_000, stream=stream).param == "max_output_tokens"


def test_answers_are_not_stored(client: openai.OpenAI) -> None:
    for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
        with pytest.raises(openai.NotFoundError, match="answers are not stored here") as missing:
            ask("resp_1")
        assert missing.value.code == "unknown_url"
    with pytest.raises(openai.NotFoundError, match="not counted beforehand"):
        client.responses.input_tokens.count(model="assistant-large", input=QUESTION)


def test_errors_are_openai_s(client: openai.OpenAI, platform: ForebayProcess) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="gpt-99", input=QUESTION)
    assert missing.value.code == "model_not_found"
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="elsewhere", input="word " * 2000, stream=stream)
        assert refused.value.code == "context_length_exceeded"
    stranger = openai.OpenAI(base_url=platform.url, api_key="fb-not-the-key-0123456789", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.responses.create(model="assistant-large", input=QUESTION)


def test_fields_that_nobody_knows_are_named(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "assistant-large",
        "input": QUESTION,
        "max_output_tokens": 1,
        "extra_body": {"verbosity_of_trees": 3},
    }
    for stream in (False, True):
        raw = client.responses.with_raw_response.create(**asked, stream=stream)
        assert raw.headers["X-Forebay-Ignored-Fields"] == "verbosity_of_trees"
        assert raw.headers["X-Forebay-Pool"] == "assistant-large"
        raw.http_response.read()
        chat = client.chat.completions.with_raw_response.create(
            model="assistant-large",
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=1,
            stream=stream,
            extra_body={"verbosity_of_trees": 3},
        )
        assert chat.headers["X-Forebay-Ignored-Fields"] == "verbosity_of_trees"
        chat.http_response.read()


def test_the_service_tier_is_the_class(actor: openai.OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError) as refused:
        actor.responses.create(model="actor", input="x", service_tier="priority")
    assert refused.value.param == "service_tier"
    with pytest.raises(openai.PermissionDeniedError):
        actor.chat.completions.create(
            model="actor", messages=[{"role": "user", "content": "x"}], service_tier="priority"
        )
    for tier in ("flex", "auto", "default"):
        assert actor.responses.create(model="actor", input="x", service_tier=tier, max_output_tokens=2).output  # pyright: ignore
    header = {"X-Priority": "batch"}
    assert actor.responses.create(
        model="actor", input="x", service_tier="priority", extra_headers=header, max_output_tokens=2
    ).output


def test_a_client_that_leaves_ends_its_request(client: openai.OpenAI, engine: ForebayProcess) -> None:
    """Observed on the engine elsewhere, whose metrics can be read here."""
    aborted = metric(engine, 'vllm:request_success_total{finished_reason="abort"')
    with client.responses.create(
        model="elsewhere", input=QUESTION, max_output_tokens=400, temperature=1.5, stream=True
    ) as stream:
        next(iter(stream))
        assert metric(engine, "vllm:num_requests_running") == 1
    until("the engine runs nothing", lambda: metric(engine, "vllm:num_requests_running") == 0, limit_s=20)
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).responses.create(
            model="elsewhere", input=QUESTION, max_output_tokens=400, temperature=1.5
        )
    until("the engine runs nothing", lambda: metric(engine, "vllm:num_requests_running") == 0, limit_s=20)
    assert metric(engine, 'vllm:request_success_total{finished_reason="abort"') == aborted + 2


def test_metrics_count(client: openai.OpenAI, platform: ForebayProcess) -> None:
    series = 'forebay_requests_total{pool="assistant-small",route="responses",status="200"}'
    before = metric(platform, series)
    client.responses.create(model="assistant-small", input=QUESTION, max_output_tokens=1)
    assert metric(platform, series) == before + 1
