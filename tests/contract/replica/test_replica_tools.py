"""Tools, as OpenAI's own client sees them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.support.chat_dialects import HERMES, LLAMA, PLAIN, PYTHON_TAG, tool
from tests.support.scripted_replica import MODEL, scripted_client

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [tool("weather", CITY, description="Tells the weather."), tool("now")]
USER = {"role": "user", "content": "Oslo?"}
CALLS = [
    "Let me",
    " see.\n",
    "<tool_call>",
    '\n{"name": "weather", ',
    '"arguments": {"city": ',
    '"Oslo"}}\n',
    "</tool_call>",
    '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
]
MARKS = ("<tool_call>", "</tool_call>")


def ask(client: OpenAI, **fields: Any) -> ChatCompletion:
    return client.chat.completions.create(
        **({"model": MODEL, "messages": [USER], "tools": TOOLS, "temperature": 0, "max_tokens": 200} | fields)
    )


def stream(client: OpenAI, **fields: Any) -> list[ChatCompletionChunk]:
    return list(ask(client, stream=True, **fields))  # type: ignore[call-overload]


def called(answer: ChatCompletion, choice: int = 0) -> list[tuple[str, str]]:
    return [(call.function.name, call.function.arguments) for call in answer.choices[choice].message.tool_calls or ()]


@pytest.fixture(scope="module", params=[(), MARKS], ids=["plain-marks", "special-marks"])
def caller(request: pytest.FixtureRequest) -> Iterator[OpenAI]:
    with scripted_client(CALLS, HERMES, ("<|im_start|>", *request.param)) as client:
        yield client


@pytest.fixture(scope="module")
def talker() -> Iterator[OpenAI]:
    """It calls nothing by itself."""
    with scripted_client(["Hello", " there."], PLAIN, ("<|im_start|>", *MARKS)) as client:
        yield client


def test_calls_are_told_apart_from_text(caller: OpenAI) -> None:
    answer = ask(caller)
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me see."
    assert called(answer) == [("weather", '{"city": "Oslo"}'), ("now", "{}")]
    ids = [call.id for call in choice.message.tool_calls or ()]
    assert all(each.startswith("call_") for each in ids)
    assert len({*ids}) == 2


def test_calls_stream_in_pieces(caller: OpenAI) -> None:
    chunks = stream(caller)
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    first = [delta for delta in deltas if delta.id is not None]
    assert [(delta.index, delta.type, delta.function and delta.function.name) for delta in first] == [
        (0, "function", "weather"),
        (1, "function", "now"),
    ]
    assert all(delta.function is not None and delta.function.name is None for delta in deltas if delta.id is None)
    pieces = [delta.function.arguments or "" for delta in deltas if delta.index == 0 and delta.function]
    assert "".join(pieces) == '{"city": "Oslo"}'
    assert len([piece for piece in pieces if piece]) > 1
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Let me see."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["tool_calls"]


def test_without_parallel_calls_the_first_alone_is_told(caller: OpenAI) -> None:
    assert called(ask(caller, parallel_tool_calls=False)) == [("weather", '{"city": "Oslo"}')]


def test_each_choice_has_its_own_calls(caller: OpenAI) -> None:
    answer = ask(caller, n=2)
    assert called(answer, 0) == called(answer, 1) == [("weather", '{"city": "Oslo"}'), ("now", "{}")]


def test_choice_none_tells_the_text_as_it_is() -> None:
    with scripted_client(CALLS, HERMES) as client:
        (choice,) = ask(client, tool_choice="none").choices
        assert choice.message.tool_calls is None
        assert choice.message.content == "".join(CALLS)
        assert choice.finish_reason == "stop"


def test_a_call_cut_off_keeps_what_came(caller: OpenAI) -> None:
    answer = ask(caller, max_tokens=5)
    assert answer.choices[0].finish_reason == "length"
    assert called(answer) == [("weather", '{"city": ')]


def test_a_strict_tool_holds_the_call_to_its_schema(caller: OpenAI) -> None:
    rome = CITY | {"properties": {"city": {"enum": ["Rome"]}}}
    answer = ask(caller, tools=[tool("weather", rome, strict=True)], parallel_tool_calls=False)
    assert called(answer)[0] == ("weather", '{"city": "Rome"}')
    assert answer.choices[0].message.content == "Let me see."


@pytest.mark.parametrize("streamed", [False, True])
def test_a_required_call_is_made_by_a_model_that_would_not(talker: OpenAI, streamed: bool) -> None:
    free = ask(talker)
    assert free.choices[0].message.content == "Hello there."
    assert free.choices[0].finish_reason == "stop"
    fields: dict[str, Any] = {"tool_choice": "required", "parallel_tool_calls": False}
    if streamed:
        chunks = stream(talker, **fields)
        assert chunks[-1].choices[0].finish_reason == "tool_calls"
        deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
        name = deltas[0].function and deltas[0].function.name
        arguments = "".join(delta.function.arguments or "" for delta in deltas if delta.function)
        assert all(not chunk.choices[0].delta.content for chunk in chunks)
    else:
        answer = ask(talker, **fields)
        assert answer.choices[0].finish_reason == "tool_calls"
        assert answer.choices[0].message.content is None
        ((name, arguments),) = called(answer)
    assert name in {"weather", "now"}
    assert json.loads(arguments) in ({"city": "Oslo"}, {"city": "Rome"}, {})


@pytest.mark.parametrize("name", ["weather", "now"])
def test_the_named_tool_is_called(talker: OpenAI, name: str) -> None:
    answer = ask(talker, tool_choice={"type": "function", "function": {"name": name}})
    assert answer.choices[0].finish_reason == "tool_calls"
    ((called_name, arguments),) = called(answer)
    assert called_name == name
    assert set(json.loads(arguments)) == ({"city"} if name == "weather" else set())


def test_a_format_holds_what_is_no_call(talker: OpenAI) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    answer = ask(talker, response_format=schema, logit_bias={"257": -100, "258": -100, "259": -100})
    assert json.loads(answer.choices[0].message.content or "")["city"] in {"Oslo", "Rome"}
    assert answer.choices[0].message.tool_calls is None


@pytest.mark.parametrize("template", [HERMES, PLAIN])
def test_calls_and_results_go_back_in(template: str) -> None:
    with scripted_client(CALLS, template) as client:
        first = ask(client)
        calls = first.choices[0].message.tool_calls or []
        results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in calls]
        second = ask(client, messages=[USER, first.choices[0].message, *results])
        assert first.usage is not None
        assert second.usage is not None
        assert second.usage.prompt_tokens > first.usage.prompt_tokens + len("rain")
        assert called(second) == called(first)


def test_llamas_calls_are_read_with_their_tag_and_without() -> None:
    call = ['{"name": "weather", ', '"parameters": {"city": "Oslo"}}']
    for pieces in (call, [PYTHON_TAG, *call]):
        with scripted_client(pieces, LLAMA, (PYTHON_TAG, "<|eot_id|>")) as client:
            answer = ask(client)
            assert called(answer) == [("weather", '{"city": "Oslo"}')]
            assert answer.choices[0].message.content is None
            assert called(ask(client, tool_choice={"type": "function", "function": {"name": "now"}})) == [("now", "{}")]


@pytest.mark.parametrize(
    "property_",
    [{"type": "array", "uniqueItems": True}, {"type": "string", "pattern": "(?=x)"}, {"type": "strnig"}],
)
def test_a_schema_that_cannot_be_held_to_is_refused_by_its_tools_name(
    talker: OpenAI, property_: dict[str, object]
) -> None:
    odd = tool("odd_one", {"type": "object", "properties": {"a": property_}})
    with pytest.raises(BadRequestError, match="odd_one"):
        ask(talker, tools=[*TOOLS, odd], tool_choice="required")


ENFORCED: list[dict[str, Any]] = [
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
]


@pytest.mark.parametrize("fields", ENFORCED, ids=["required", "named"])
@pytest.mark.parametrize("llama", [False, True], ids=["hermes", "llama"])
def test_an_enforced_call_that_is_cut_off_is_never_content(fields: dict[str, Any], llama: bool) -> None:
    template, special = (LLAMA, (PYTHON_TAG, "<|eot_id|>")) if llama else (HERMES, ("<|im_start|>",))
    with scripted_client(["Hello", " there."], template, special) as client:
        for max_tokens in (1, 2, 3, 5, 8, 12, 20, 30, 45, 60, 75):
            (choice,) = ask(client, max_tokens=max_tokens, **fields).choices
            assert choice.message.content is None
            if choice.finish_reason == "tool_calls":
                assert all(json.loads(call.function.arguments) is not None for call in choice.message.tool_calls or ())
            chunks = stream(client, max_tokens=max_tokens, **fields)
            assert all(chunk.choices[0].delta.content is None for chunk in chunks)
            assert chunks[-1].choices[0].finish_reason == choice.finish_reason


@pytest.mark.parametrize("fields", ENFORCED, ids=["required", "named"])
def test_enforced_calls_do_not_look_for_stop_strings(talker: OpenAI, fields: dict[str, Any]) -> None:
    free, stopped = (ask(talker, parallel_tool_calls=False, stop=stop, **fields) for stop in (None, ["name", "}", ":"]))
    assert called(stopped) == called(free) != []
    assert stopped.choices[0].finish_reason == "tool_calls"
    (choice,) = ask(talker, stop=["the"]).choices
    assert (choice.message.content, choice.finish_reason) == ("Hello ", "stop")


@pytest.mark.parametrize(
    ("stop", "reason", "arguments"),
    [
        ('"}}', "stop", ['{"city": "Oslo']),
        ("Oslo", "stop", ['{"city": "']),
        ("</tool_call>", "tool_calls", ['{"city": "Oslo"}']),
        ("now", "stop", ['{"city": "Oslo"}']),
    ],
)
def test_a_call_that_a_stop_string_cuts_off_is_nothing_to_run(stop: str, reason: str, arguments: list[str]) -> None:
    with scripted_client(CALLS, HERMES) as client:
        (choice,) = ask(client, stop=stop).choices
        assert choice.finish_reason == reason
        assert choice.model_extra is not None
        assert choice.model_extra["stop_reason"] == stop
        assert [call.function.arguments for call in choice.message.tool_calls or ()] == arguments
        assert choice.message.content == "Let me see."
        chunks = stream(client, stop=stop)
        assert chunks[-1].choices[0].finish_reason == reason
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Let me see."


@pytest.mark.parametrize("logprobs", [False, True])
def test_streamed_calls_alone_have_no_content(logprobs: bool) -> None:
    with scripted_client(CALLS[2:], HERMES) as client:
        chunks = stream(client, logprobs=logprobs)
        assert chunks[0].choices[0].delta.role == "assistant"
        assert all(chunk.choices[0].delta.content is None for chunk in chunks)
        told = [each for chunk in chunks if (found := chunk.choices[0].logprobs) for each in found.content or ()]
        assert len(told) == (len(CALLS[2:]) if logprobs else 0)


def test_an_answer_that_says_nothing_is_empty_streamed_and_whole() -> None:
    with scripted_client(["x"], HERMES) as client:
        fields: dict[str, Any] = {"stop": "x"}
        assert ask(client, **fields).choices[0].message.content == ""
        contents = [chunk.choices[0].delta.content for chunk in stream(client, **fields)]
        assert [each for each in contents if each is not None] == [""]
