"""`/v1/messages` as a chat completion, and back."""

import json
from typing import Any

import pytest

from forebay.api.sse import SseParser
from forebay.core.errors import (
    BodyTooLarge,
    BudgetExhausted,
    CapacityUnavailable,
    DeadlineExceeded,
    ForebayError,
    InternalError,
    InvalidApiKey,
    InvalidRequest,
    ModelNotFound,
    PermissionDenied,
    RequestRepeated,
    UpstreamFailed,
)
from forebay.gateway.messages.errors import error_body
from forebay.gateway.messages.translation import MessagesTranslation

WEATHER = {"name": "weather", "description": "Tells it.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "1", "name": "weather", "input": {}}
TEXT = {"type": "text", "text": "x"}
HI = [{"role": "user", "content": "Hi"}]


def translation(*, own_pool: bool = True, extensions: bool = True, **fields: Any) -> MessagesTranslation:
    body = {"model": "m", "max_tokens": 9, "messages": HI} | fields
    return MessagesTranslation(json.dumps(body).encode(), key="k", own_pool=own_pool, extensions=extensions)


def sent(*, own_pool: bool = True, extensions: bool = True, **fields: Any) -> dict[str, Any]:
    return json.loads(translation(own_pool=own_pool, extensions=extensions, **fields).body)


def answered(choice: dict[str, Any], asked: dict[str, Any] | None = None, **more: Any) -> Any:
    answer = {"id": "chatcmpl-1", "choices": [{"index": 0, **choice}], **more}
    return json.loads(translation(**asked or {}).whole(json.dumps(answer).encode()))


def called(arguments: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": "c", "function": {"name": "weather", "arguments": arguments}}]}


def chunk(delta: dict[str, Any] | None = None, **more: Any) -> bytes:
    usage = {"usage": more.pop("usage")} if "usage" in more else {}
    choices = [] if delta is None else [{"index": 0, "delta": delta, **more}]
    return b"data: " + json.dumps({"choices": choices, **usage}).encode() + b"\n\n"


def streamed(*chunks: bytes, **asked: Any) -> list[dict[str, Any]]:
    stream = translation(stream=True, **asked).stream()
    return events_of(b"".join(stream.feed(each) for each in chunks))


def events_of(told: bytes) -> list[dict[str, Any]]:
    events = SseParser().feed(told)
    data = [json.loads(event.data) for event in events]
    assert [event.name for event in events] == [each["type"] for each in data]
    return data


DONE = b"data: [DONE]\n\n"


def test_a_question() -> None:
    assert sent() == {"model": "m", "messages": HI, "max_tokens": 9}


def test_options() -> None:
    body = sent(
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        stop_sequences=["END"],
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        metadata={"user_id": "u"},
        service_tier="standard_only",
        stream=True,
    )
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, *HI],
        "max_tokens": 9,
        "stop": ["END"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "user": "u",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_conversation_with_tools() -> None:
    messages = sent(
        system="Be brief.",
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "1", "name": "weather", "input": {"a": 1}},
                    {"type": "tool_use", "id": "2", "name": "weather", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "rain"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "2",
                        "is_error": True,
                        "content": [{"type": "text", "text": "no sun"}],
                    },
                    {"type": "tool_result", "tool_use_id": "3"},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
    )["messages"]

    def call(id_: str, arguments: str) -> dict[str, Any]:
        return {"id": id_, "type": "function", "function": {"name": "weather", "arguments": arguments}}

    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "hm",
            "tool_calls": [call("1", '{"a":1}'), call("2", "{}")],
        },
        {"role": "tool", "content": "rain", "tool_call_id": "1"},
        {"role": "tool", "content": "Error: no sun", "tool_call_id": "2"},
        {"role": "tool", "content": "", "tool_call_id": "3"},
        {"role": "user", "content": "Well?"},
    ]


@pytest.mark.parametrize("content", ["The answer is", [{"type": "text", "text": "The answer is"}]])
def test_the_assistant_s_turn_at_the_end_is_continued(content: object) -> None:
    body = sent(messages=[*HI, {"role": "assistant", "content": content}])
    assert body["messages"][-1] == {"role": "assistant", "content": "The answer is"}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [*HI, {"role": "assistant", "content": "So"}]}, "messages[1]"),
        ({"top_k": 40}, "top_k"),
    ],
)
def test_what_only_some_servers_do_is_sent_to_no_other(fields: dict[str, Any], param: str) -> None:
    assert sent(**fields)
    with pytest.raises(InvalidRequest, match="not known to do this") as error:
        translation(own_pool=False, extensions=False, **fields)
    assert error.value.param == param


def test_a_top_k_of_0_restricts_nothing_anywhere() -> None:
    assert "top_k" not in sent(extensions=False, top_k=0)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
        ({"output_format": {"type": "json_schema", "schema": {}}}, "output_format"),
        ({"tools": [WEATHER], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "weather"}}, "tool_choice"),
    ],
)
def test_what_has_to_have_a_form_is_not_continued(fields: dict[str, Any], param: str) -> None:
    assert sent(**fields)
    with pytest.raises(InvalidRequest, match="continued") as error:
        translation(**fields, messages=[*HI, {"role": "assistant", "content": '{"a": '}])
    assert error.value.param == param


def test_a_turn_of_thoughts_alone_stays_a_turn() -> None:
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}]}
    assert sent(messages=[*HI, thinking, *HI])["messages"] == [
        *HI,
        {"role": "assistant", "content": "", "reasoning_content": "hm"},
        *HI,
    ]


@pytest.mark.parametrize(
    ("param", "detail", "expected", "words"),
    [
        ("response_format.json_schema.schema", "{}: no", "output_config.format.schema", "{}: no"),
        ("response_format", "{}: no", "output_config.format", "{}: no"),
        ("tools[1].function.parameters", "{}: no", "tools[1].input_schema", "{}: no"),
        ("tools[1].function.name", "{}: no", "tools[1].name", "{}: no"),
        ("tool_choice.function.name", "{}: no", "tool_choice.name", "{}: no"),
        ("stop[0]", "{}: no", "stop_sequences[0]", "{}: no"),
        ("messages[3].content", "{}: no", "messages", "{}: no"),
        ("temperature", "{}: no", "temperature", "{}: no"),
        ("messages", "stopped at messages[1]", "messages", "stopped at messages[1]"),
        (None, "no stop", None, "no stop"),
    ],
)
def test_a_pool_s_refusal_names_the_fields_that_were_sent(
    param: str | None, detail: str, expected: str | None, words: str
) -> None:
    error = translation().error(InvalidRequest(detail.format(param), param=param))
    assert type(error) is InvalidRequest
    assert (error.param, error.detail) == (expected, words.format(expected))


def test_other_errors_stay_as_they_are() -> None:
    error = UpstreamFailed("messages: gone")
    assert translation().error(error) is error


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "any"}, "required", None),
        ({"type": "none"}, "none", None),
        ({"type": "tool", "name": "weather"}, {"type": "function", "function": {"name": "weather"}}, None),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any", "disable_parallel_tool_use": False}, "required", True),
    ],
)
def test_tools(choice: dict[str, Any], expected: object, parallel: bool | None) -> None:
    body = sent(tools=[WEATHER, {**WEATHER, "name": "other", "type": "custom", "strict": True}], tool_choice=choice)
    first, second = body["tools"]
    function = {"name": "weather", "description": "Tells it.", "parameters": {"type": "object"}}
    assert first == {"type": "function", "function": function}
    assert second["function"]["strict"] is True
    assert body["tool_choice"] == expected
    assert body.get("parallel_tool_calls") is parallel


def test_what_the_answer_must_match() -> None:
    format_ = {"type": "json_schema", "schema": {"type": "object"}}
    body = sent(output_config={"effort": "max", "format": format_})
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert body["reasoning_effort"] == "xhigh"
    assert sent(output_format=format_)["response_format"] == body["response_format"]
    with pytest.raises(InvalidRequest, match=r"older name of `output_config\.format`"):
        sent(output_format=format_, output_config={"format": format_})


def test_only_our_own_pools_are_told_whether_to_think() -> None:
    enabled, disabled = {"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}
    assert sent(thinking=enabled)["chat_template_kwargs"] == {"enable_thinking": True}
    assert sent(thinking=disabled)["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in sent(thinking=disabled, own_pool=False)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"max_tokens": None}, "max_tokens", "null"),
        ({"temperature": 1.5}, "temperature", "1"),
        ({"messages": []}, "messages", "length"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type", "image"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text", "required"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "document"}]}],
                    }
                ]
            },
            "messages[0].content[0].content[0].type",
            "document",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}]},
            "messages[0].content[0].type",
            "tool_use",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}
                ]
            },
            "messages[0].content",
            "tool_result",
        ),
        ({"messages": [{"role": "assistant", "content": []}]}, "messages[0].content", "must end with text"),
        (
            {"messages": [*HI, {"role": "assistant", "content": [USE, TEXT]}, {"role": "assistant", "content": "so"}]},
            "messages[1].content",
            "no tool_use",
        ),
        ({"system": [{"type": "image"}]}, "system[0].type", "image"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type", "bash_20250124"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema", "required"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].name", "twice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "f"}}, "tool_choice.name", "'f'"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name", "required"),
        ({"tool_choice": {"type": "any"}}, "tool_choice", "at least one"),
        ({"mcp_servers": [{"url": "u"}]}, "mcp_servers", "tools"),
        ({"container": "c"}, "container", "nothing is run"),
        ({"thread": {"id": "t"}}, "thread", "not stored"),
        ({"metadata": {"user_id": 1}}, "metadata.user_id", "str"),
        ({"system": [{"type": "image"}]}, "system[0].type", "only 'text' blocks are run"),
    ],
)
def test_what_is_refused_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        translation(**fields)
    assert error.value.param == param
    assert words in error.value.detail


def test_a_whole_answer() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}
    message = {"content": "Let me see.", "reasoning": "hm", **called('{"a": [1]}')}
    answer = answered({"message": message, "finish_reason": "tool_calls"}, usage=usage)
    assert answer == {
        "id": "msg_k",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "c", "name": "weather", "input": {"a": [1]}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 2,
            "output_tokens": 4,
            "cache_read_input_tokens": 8,
            "cache_creation_input_tokens": 0,
        },
    }


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason", "expected"),
    [
        ("stop", None, ("end_turn", None)),
        ("stop", "END", ("stop_sequence", "END")),
        ("stop", "unasked", ("end_turn", None)),
        ("stop", 151645, ("end_turn", None)),
        ("length", None, ("max_tokens", None)),
        ("content_filter", None, ("refusal", None)),
        ("eos", None, ("end_turn", None)),
        (None, None, ("end_turn", None)),
    ],
)
def test_why_it_ended(finish_reason: str | None, stop_reason: object, expected: tuple[str, str | None]) -> None:
    choice = {"finish_reason": finish_reason, "stop_reason": stop_reason}
    answer = answered({"message": {"content": "x"}, **choice}, {"stop_sequences": ["END"]})
    assert (answer["stop_reason"], answer["stop_sequence"]) == expected
    events = streamed(chunk({"content": "x"}, **choice), DONE, stop_sequences=["END"])
    assert events[-2]["delta"] == {"stop_reason": expected[0], "stop_sequence": expected[1]}


def test_a_forced_call_that_is_told_as_a_plain_end() -> None:
    assert answered({"message": called("{}"), "finish_reason": "stop"})["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("arguments", "choice", "expected"),
    [
        ('{"a": ', {"finish_reason": "stop", "stop_reason": "END"}, ("stop_sequence", "END")),
        ("", {"finish_reason": "stop", "stop_reason": "END"}, ("stop_sequence", "END")),
        ('{"a": ', {"finish_reason": "tool_calls", "stop_reason": "END"}, ("stop_sequence", "END")),
        ('{"a": 1}', {"finish_reason": "stop", "stop_reason": "END"}, ("stop_sequence", "END")),
        ('{"a": 1}', {"finish_reason": "tool_calls", "stop_reason": "END"}, ("tool_use", None)),
        ('{"a": ', {"finish_reason": "length", "stop_reason": None}, ("max_tokens", None)),
        ('{"a": ', {"finish_reason": "stop"}, ("end_turn", None)),
        ('{"a": ', {"finish_reason": "tool_calls"}, ("tool_use", None)),
        ('{"a": 1}', {"finish_reason": "stop"}, ("tool_use", None)),
    ],
)
def test_why_a_call_ended(arguments: str, choice: dict[str, Any], expected: tuple[str, str | None]) -> None:
    answer = answered({"message": called(arguments), **choice}, {"stop_sequences": ["END"]})
    assert (answer["stop_reason"], answer["stop_sequence"]) == expected
    events = streamed(chunk(called(arguments)), chunk({}, **choice), DONE, stop_sequences=["END"])
    assert events[-2]["delta"] == {"stop_reason": expected[0], "stop_sequence": expected[1]}


def test_a_refusal_is_text() -> None:
    assert answered({"message": {"content": None, "refusal": "No."}})["content"] == [{"type": "text", "text": "No."}]
    events = streamed(chunk({"refusal": "No."}), DONE)
    assert events[2]["delta"] == {"type": "text_delta", "text": "No."}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("", {}), (" ", {}), ('{"a": ', {"INVALID_JSON": '{"a": '}), ("[1]", {"INVALID_JSON": "[1]"})],
)
def test_a_tool_s_input_is_always_an_object(arguments: str, expected: object) -> None:
    answer = answered({"message": called(arguments), "finish_reason": "length"})
    assert answer["content"][0]["input"] == expected
    assert answer["stop_reason"] == "max_tokens"


def test_an_answer_of_nothing() -> None:
    answer = answered({"message": {"content": ""}, "finish_reason": "stop"})
    assert (answer["content"], answer["usage"]["input_tokens"]) == ([], 0)
    events = streamed(chunk({"content": ""}, finish_reason="stop"), DONE)
    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]


def test_a_stream() -> None:
    def call(**function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "id": "c", "function": function}]}

    events = streamed(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "Let me "}),
        chunk({"content": "see."}),
        chunk(call(name="weather", arguments="")),
        chunk(call(arguments='{"a"')),
        chunk(call(arguments=":1}")),
        chunk({}, finish_reason="tool_calls"),
        chunk(usage={"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": None}),
        DONE,
    )
    assert events[0]["type"] == "message_start"
    assert events[0]["message"]["content"] == []
    assert events[1:-2] == [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let me "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "see."}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "c", "name": "weather", "input": {}},
        },
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a"'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ":1}"}},
        {"type": "content_block_stop", "index": 2},
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert (events[-2]["usage"]["input_tokens"], events[-2]["usage"]["output_tokens"]) == (5, 7)
    assert events[-1] == {"type": "message_stop"}


def test_a_stream_that_breaks_off() -> None:
    stream = translation(stream=True).stream()
    stream.feed(chunk({"content": "b"}))
    with pytest.raises(UpstreamFailed) as error:
        stream.feed(b'data: {"error": {"message": "it broke"}}\n\n')
    (last,) = events_of(stream.failed(error.value))
    assert last == {"type": "error", "error": {"type": "api_error", "message": "it broke"}}


def test_what_was_made_before_a_failure_is_told_first() -> None:
    stream = translation(stream=True).stream()
    assert not stream.begun
    with pytest.raises(CapacityUnavailable) as error:
        stream.feed(
            chunk({"content": "b"}) + b'data: {"error": {"message": "full", "code": "capacity_unavailable"}}\n\n'
        )
    assert stream.begun
    events = events_of(stream.failed(error.value))
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "error",
    ]
    assert events[-1]["error"] == {"type": "overloaded_error", "message": "full"}


def test_nothing_is_nested_too_deeply_to_be_refused() -> None:
    """What can just be decoded may be too deep to be encoded again."""
    refused: set[bool] = set()
    for depth in range(800, 1000):
        schema = '{"a":' * depth + "1" + "}" * depth
        tools = f'[{{"name": "f", "input_schema": {schema}}}]'
        body = f'{{"model": "m", "max_tokens": 1, "messages": {json.dumps(HI)}, "tools": {tools}}}'
        try:
            MessagesTranslation(body.encode(), key="k", own_pool=True, extensions=True)
            refused.add(False)
        except InvalidRequest as error:
            assert "nested too deeply" in error.detail
            refused.add(True)
    assert True in refused


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest, "invalid_request_error"),
        (InvalidApiKey, "authentication_error"),
        (PermissionDenied, "permission_error"),
        (ModelNotFound, "not_found_error"),
        (BodyTooLarge, "request_too_large"),
        (InternalError, "api_error"),
        (UpstreamFailed, "api_error"),
        (CapacityUnavailable, "overloaded_error"),
        (DeadlineExceeded, "timeout_error"),
    ],
)
def test_errors_have_anthropic_s_shape(error: type[ForebayError], kind: str) -> None:
    body = json.loads(error_body(error("what was wrong"), "req-1"))
    assert body == {"type": "error", "error": {"type": kind, "message": "what was wrong"}, "request_id": "req-1"}


def test_an_exhausted_budget_and_a_repeat_are_told_whole() -> None:
    spent = json.loads(error_body(BudgetExhausted("spent"), "req-1"))
    assert spent["error"]["type"] == "billing_error"
    repeated = json.loads(error_body(RequestRepeated("again", members={"usage": {"prompt_tokens": 1}}), "req-1"))
    assert repeated["usage"] == {"prompt_tokens": 1}


def test_the_text_names_the_field() -> None:
    def message(detail: str) -> str:
        return json.loads(error_body(InvalidRequest(detail, param="top_k"), "req-1"))["error"]["message"]

    assert message("must be less") == "top_k: must be less"
    assert message("top_k: must be less") == "top_k: must be less"
