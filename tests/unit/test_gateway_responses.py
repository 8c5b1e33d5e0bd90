"""`/v1/responses` as a chat completion, and back."""

import json
from typing import Any

import pytest

from forebay.api.sse import SseParser
from forebay.core.errors import CapacityUnavailable, ContextTooLong, ForebayError, InvalidRequest, UpstreamFailed
from forebay.gateway.responses.translation import ResponsesTranslation

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Tells it.",
    "parameters": {"type": "object"},
    "strict": True,
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def translation(**fields: Any) -> ResponsesTranslation:
    body = json.dumps({"model": "m", "input": "Hi"} | fields).encode()
    return ResponsesTranslation(body, key="k", created_at=1700000000)


def sent(**fields: Any) -> dict[str, Any]:
    return json.loads(translation(**fields).body)


def refused(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as error:
        translation(**fields)
    return error.value


def answered(
    message: dict[str, Any], finish_reason: str = "stop", asked: dict[str, Any] | None = None, **more: Any
) -> Any:
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    answer = {"id": "chatcmpl-1", "model": "m", "choices": [choice], **more}
    return json.loads(translation(**asked or {}).whole(json.dumps(answer).encode()))


def chunk(delta: dict[str, Any] | None = None, finish_reason: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


def streamed(*chunks: bytes, **asked: Any) -> list[dict[str, Any]]:
    """The events; each name is that of its type, and they are numbered from 0."""
    stream = translation(stream=True, **asked).stream()
    told = b"".join(stream.feed(each) for each in chunks)
    return events_of(told)


def events_of(told: bytes) -> list[dict[str, Any]]:
    events = SseParser().feed(told)
    data = [json.loads(event.data) for event in events]
    assert [event.name for event in events] == [each["type"] for each in data]
    assert [each["sequence_number"] for each in data] == list(range(len(data)))
    return data


DONE = b"data: [DONE]\n\n"


def test_a_text_is_one_question() -> None:
    assert sent() == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def test_options_go_by_their_older_names() -> None:
    body = sent(
        instructions="Be brief.",
        max_output_tokens=9,
        temperature=0.5,
        top_p=0.9,
        top_logprobs=2,
        reasoning={"effort": "low", "summary": "auto"},
        service_tier="flex",
        user="u",
        metadata={"a": "b"},
        stream=True,
        store=False,
        truncation="disabled",
    )
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "logprobs": True,
        "top_logprobs": 2,
        "reasoning_effort": "low",
        "service_tier": "flex",
        "user": "u",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_logprobs_are_included_without_any_alternatives() -> None:
    body = sent(include=["reasoning.encrypted_content", "message.output_text.logprobs"])
    assert body["logprobs"] is True
    assert "top_logprobs" not in body
    assert "logprobs" not in sent(include=["reasoning.encrypted_content"])


def test_a_conversation_with_calls() -> None:
    messages = sent(
        input=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
            {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {
                "type": "message",
                "id": "msg",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}],
            },
            {"type": "function_call", "call_id": "1", "name": "weather", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "2", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "rain"},
            {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "sun"}]},
            {"role": "assistant", "content": "Both."},
            {"role": "assistant", "content": "Or none."},
            {"role": "user", "content": "Thanks."},
        ]
    )["messages"]

    def called(id_: str, arguments: str) -> dict[str, Any]:
        return {"id": id_, "type": "function", "function": {"name": "weather", "arguments": arguments}}

    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "hm",
            "tool_calls": [called("1", '{"a": 1}'), called("2", "{}")],
        },
        {"role": "tool", "content": "rain", "tool_call_id": "1"},
        {"role": "tool", "content": "sun", "tool_call_id": "2"},
        {"role": "assistant", "content": "Both."},
        {"role": "assistant", "content": "Or none."},
        {"role": "user", "content": "Thanks."},
    ]


def test_each_round_of_calls_is_a_turn_of_its_own() -> None:
    messages = sent(
        input=[
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "2", "name": "f", "arguments": "{}"},
        ]
    )["messages"]
    assert [[call["id"] for call in message["tool_calls"]] for message in messages] == [["1"], ["2"]]


def test_tools_and_formats() -> None:
    body = sent(
        tools=[WEATHER],
        tool_choice={"type": "function", "name": "weather"},
        parallel_tool_calls=False,
        text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}, "verbosity": "low"},
    )
    function = {name: value for name, value in WEATHER.items() if name != "type"}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert body["parallel_tool_calls"] is False
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
    }
    assert sent(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert "response_format" not in sent(text={"format": {"type": "text"}})


def test_what_needs_tools_is_left_out_without_them() -> None:
    body = sent(tools=[], tool_choice="auto", parallel_tool_calls=True)
    assert not body.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "not stored"),
        ({"conversation": "c"}, "conversation", "not stored"),
        ({"conversation": {"id": "c"}}, "conversation", "not stored"),
        ({"store": True}, "store", "not stored"),
        ({"background": True}, "background", "not stored"),
        ({"prompt": {"id": "p"}}, "prompt", "not stored"),
        ({"truncation": "auto"}, "truncation", "disabled"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "not stored"),
        ({"input": [{"type": "computer_call_output", "call_id": "x", "output": {}}]}, "input[0].type", "computer_call"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": {}}]}, "input[0].output", "text"),
        ({"input": [{"type": "function_call", "call_id": "x"}]}, "input[0].name", "required"),
        ({"input": [{"content": "x"}]}, "input[0].role", "required"),
        ({"input": []}, "input", "length"),
        ({"input": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}]}, "input", "answer"),
        (
            {"input": [{"role": "user", "content": [{"type": "refusal", "refusal": "No."}]}]},
            "input[0].content[0].type",
            "only 'input_text', 'output_text' parts",
        ),
        (
            {"input": [{"role": "assistant", "content": [{"type": "refusal", "text": "No."}]}]},
            "input[0].content[0].refusal",
            "required",
        ),
        ({"include": ["message.output_text.logprobs", "nonsense"]}, "include[1]", "'nonsense'"),
        ({"metadata": {"a": 1}}, "metadata", "str"),
        ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.type", "allowed_tools"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]},
            "input[0].content[0].type",
            "input_image",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "u"}]}]},
            "input[0].content[0].type",
            "input_file",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text", "required"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
        ({"tools": [{"type": "function"}]}, "tools[0].name", "required"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].name", "twice"),
        ({"tool_choice": "required"}, "tool_choice", "at least one"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name", "'f'"),
        ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice.type", "web_search"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema", "required"),
        ({"top_logprobs": 21}, "top_logprobs", "20"),
        ({"max_output_tokens": 0}, "max_output_tokens", "1"),
    ],
)
def test_what_is_refused_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    error = refused(**fields)
    assert error.param == param
    assert words in error.detail


def test_a_whole_answer() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    asked = {"instructions": "Brief.", "tools": [WEATHER], "metadata": {"a": "b"}, "temperature": 0.5}
    answer = answered({"content": "Paris", "reasoning_content": "hm"}, asked=asked, usage=usage, service_tier="default")
    assert answer["id"] == "resp_k"
    assert answer["object"] == "response"
    assert answer["created_at"] == 1700000000
    assert answer["status"] == "completed"
    assert answer["output"] == [
        {
            "type": "reasoning",
            "id": "rs_k_0",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
            "status": "completed",
        },
        {
            "type": "message",
            "id": "msg_k_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Paris", "annotations": [], "logprobs": []}],
        },
    ]
    assert answer["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 14,
    }
    echoed = {name: answer[name] for name in asked}
    assert echoed == asked
    assert (answer["store"], answer["tool_choice"], answer["service_tier"]) == (False, "auto", "default")


def test_calls_in_a_whole_answer() -> None:
    message = {
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    answer = answered(message, "tool_calls")
    assert answer["output"] == [
        {"type": "function_call", "id": "fc_k_0", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
    ]
    assert answer["usage"] is None


def test_an_answer_that_was_cut_off() -> None:
    answer = answered({"content": "Par", "reasoning": "hm"}, "length")
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in answer["output"]] == ["completed", "incomplete"]


def test_garbage_is_the_upstream_s_failure() -> None:
    with pytest.raises(UpstreamFailed):
        translation().whole(b'{"choices": "none"}')


def test_its_time_is_that_of_its_server_where_that_tells() -> None:
    """So that whoever is given the same answer once more is told the same."""
    assert answered({"content": "x"}, created=1600000000)["created_at"] == 1600000000
    assert answered({"content": "x"}, created="now")["created_at"] == 1700000000
    events = streamed(chunk({"content": "x"}, created=1600000000), chunk({}, "stop", created=1600000001), DONE)
    told = {event["response"]["created_at"] for event in events if "response" in event}
    assert told == {1600000000}


def test_a_stream_of_text() -> None:
    events = streamed(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Pa"}),
        chunk({"content": "ris"}),
        chunk({}, "stop"),
        chunk(usage={"prompt_tokens": 3, "completion_tokens": 2}),
        DONE,
    )
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert events[0]["response"]["status"] == "in_progress"
    assert events[2]["item"]["content"] == []
    assert [event["delta"] for event in events[4:6]] == ["Pa", "ris"]
    assert events[6]["text"] == events[7]["part"]["text"] == "Paris"
    assert {event["item_id"] for event in events[3:8]} == {"msg_k_0"}
    final = events[-1]["response"]
    assert final["output"] == [events[-2]["item"]]
    assert final["usage"]["total_tokens"] == 5


def test_a_stream_of_thoughts_and_calls() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}

    events = streamed(
        chunk({"reasoning_content": "hm"}),
        chunk(call(0, name="f", arguments="")),
        chunk(call(0, arguments='{"x":')),
        chunk(call(0, arguments="1}")),
        chunk(call(1, name="g")),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert [event["type"].removeprefix("response.") for event in events[2:-1]] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    output = events[-1]["response"]["output"]
    assert [(item["type"], item.get("call_id"), item.get("arguments")) for item in output] == [
        ("reasoning", None, None),
        ("function_call", "c0", '{"x":1}'),
        ("function_call", "c1", "{}"),
    ]
    assert [event["output_index"] for event in events if event["type"].endswith("item.added")] == [0, 1, 2]


def test_a_stream_is_the_same_however_it_is_cut() -> None:
    whole = b"".join([chunk({"content": "é"}), chunk({"content": "!"}, "length"), DONE])
    for size in (1, 7, len(whole)):
        stream = translation(stream=True).stream()
        told = b"".join(stream.feed(whole[at : at + size]) for at in range(0, len(whole), size))
        events = events_of(told)
        assert events[-1]["type"] == "response.incomplete"
        assert events[-1]["response"]["output"][0]["status"] == "incomplete"
        assert events[-1]["response"]["output"][0]["content"][0]["text"] == "é!"


def test_an_answer_that_was_cut_off_within_or_after_a_call() -> None:
    def message(arguments: str) -> dict[str, Any]:
        return {"content": "So", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": arguments}}]}

    for arguments, status in (("{}", "completed"), ('{"a"', "incomplete"), ("", "incomplete")):
        whole = answered(message(arguments), "length")
        last = streamed(chunk(message(arguments)), chunk({}, "length"), DONE)[-1]["response"]
        for answer in (whole, last):
            assert answer["status"] == "incomplete"
            assert [item["status"] for item in answer["output"]] == ["completed", status]
            assert answer["output"][1]["arguments"] == arguments


def test_a_call_that_breaks_off_is_never_told_completed() -> None:
    events = streamed(
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a"'}}]}),
        chunk({"content": "Done."}, "stop"),
        DONE,
    )
    assert [event["item"]["status"] for event in events if event["type"] == "response.output_item.done"] == [
        "incomplete",
        "completed",
    ]


def test_a_refusal() -> None:
    part = {"type": "refusal", "refusal": "I cannot."}
    whole = answered({"content": None, "refusal": "I cannot."})
    assert whole["output"][0]["content"] == [part]
    events = streamed(chunk({"refusal": "I "}), chunk({"refusal": "cannot."}), chunk({}, "stop"), DONE)
    assert [event["type"].removeprefix("response.") for event in events[2:-1]] == [
        "output_item.added",
        "content_part.added",
        "refusal.delta",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
    ]
    assert events[3]["part"] == {"type": "refusal", "refusal": ""}
    assert events[6]["refusal"] == "I cannot."
    assert events[-1]["response"]["output"] == whole["output"]
    back = sent(input=[{"role": "user", "content": "?"}, *whole["output"], {"role": "user", "content": "Why?"}])
    assert back["messages"][1] == {"role": "assistant", "content": "I cannot."}


def test_log_probabilities_come_with_the_text() -> None:
    tokens = [{"token": "\ufffd", "bytes": [each], "logprob": -1.0} for each in "é".encode()]
    asked = {"include": ["message.output_text.logprobs"]}

    def piece(content: str, token: dict[str, Any]) -> bytes:
        choice = {"index": 0, "delta": {"content": content}, "logprobs": {"content": [token]}}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    events = streamed(piece("", tokens[0]), piece("é", tokens[1]), chunk({}, "stop"), DONE, **asked)
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [delta["logprobs"] for delta in deltas] == [tokens]
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == tokens


@pytest.mark.parametrize(
    ("kind", "param", "detail", "expected", "words"),
    [
        (InvalidRequest, "response_format.json_schema.schema", "{}: no", "text.format.schema", "{}: no"),
        (InvalidRequest, "tools[0].function.parameters", "{}: no", "tools[0].parameters", "{}: no"),
        (InvalidRequest, "tool_choice.function.name", "{}: no", "tool_choice.name", "{}: no"),
        (InvalidRequest, "max_tokens", "{}: no", "max_output_tokens", "{}: no"),
        (InvalidRequest, "max_completion_tokens", "{}: no", "max_output_tokens", "{}: no"),
        (InvalidRequest, "reasoning_effort", "{}: no", "reasoning.effort", "{}: no"),
        (InvalidRequest, "messages[0].tool_calls[1].function.arguments", "{}: no", "input", "{}: no"),
        (InvalidRequest, "tools", "no tools", "tools", "no tools"),
        (ContextTooLong, "max_tokens", "lower max_tokens", "max_output_tokens", "lower max_output_tokens"),
        (ContextTooLong, None, "max_tokens_x: too long", None, "max_tokens_x: too long"),
    ],
)
def test_a_pool_s_refusal_names_the_fields_that_were_sent(
    kind: type[ForebayError], param: str | None, detail: str, expected: str | None, words: str
) -> None:
    error = translation().error(kind(detail.format(param), param=param))
    assert type(error) is kind
    assert (error.param, error.detail) == (expected, words.format(expected))


def test_what_was_made_before_a_failure_is_told_first() -> None:
    stream = translation(stream=True).stream()
    told = stream.feed(chunk({"content": "a"}))
    with pytest.raises(CapacityUnavailable) as error:
        stream.feed(
            chunk({"content": "b"}) + b'data: {"error": {"message": "full", "code": "capacity_unavailable"}}\n\n'
        )
    events = events_of(told + stream.failed(error.value))
    assert [event["delta"] for event in events if event["type"].endswith("delta")] == ["a", "b"]
    assert [event["type"] for event in events[-2:]] == ["response.failed", "error"]
    assert events[-1]["code"] == "capacity_unavailable"


def test_a_stream_that_breaks_off() -> None:
    stream = translation(stream=True).stream()
    told = stream.feed(chunk({"reasoning": "a", "content": "b"}))
    with pytest.raises(UpstreamFailed) as error:
        stream.feed(b'data: {"error": {"message": "it broke"}}\n\n')
    failed, last = events_of(told + stream.failed(error.value))[-2:]
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": "server_error", "message": "it broke"}
    assert [item["type"] for item in failed["response"]["output"]] == ["reasoning"]
    assert (last["type"], last["code"], last["message"]) == ("error", "upstream_failed", "it broke")
    assert last["error"]["code"] == "upstream_failed"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model": "m"}', b'{"model": "m", "input": 3}'])
def test_bad_bodies_are_the_client_s(body: bytes) -> None:
    with pytest.raises(ForebayError) as error:
        ResponsesTranslation(body, key="k", created_at=0)
    assert error.value.status == 400
