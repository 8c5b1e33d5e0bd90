"""An answer as a row of parts, from one piece or from many."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from forebay.api.sse import SseEvent, SseParser, error_event
from forebay.core.errors import (
    CapacityUnavailable,
    ContextTooLong,
    DeadlineExceeded,
    ForebayError,
    InternalError,
    UpstreamFailed,
)
from forebay.gateway.answer_parts import AnswerParts, Begun, Ended, Grown, parts_of
from forebay.gateway.chat_answer import Choice, read_answer, read_chunk


def choice(**fields: object) -> Choice:
    return msgspec.convert(fields, Choice)


def told(parts: AnswerParts, *deltas: dict[str, object]) -> list[tuple[str, int, str]]:
    """What each step says, in short."""
    steps = [step for delta in deltas for step in parts.add(choice(delta=delta))] + list(parts.end())
    names = {Begun: "begun", Grown: "grown", Ended: "ended"}
    return [
        (names[type(step)], step.part.position, step.text if isinstance(step, Grown) else step.part.kind)
        for step in steps
    ]


def call(index: int | None, arguments: str = "", **more: object) -> dict[str, object]:
    function = {"arguments": arguments} | ({"name": more.pop("name")} if "name" in more else {})
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def logprobs(*tokens: str) -> dict[str, object]:
    return {"content": [{"token": token, "bytes": list(token.encode())} for token in tokens]}


def names(told: Sequence[Mapping[str, object]]) -> list[object]:
    return [each["token"] for each in told]


def test_one_part_ends_where_the_next_begins() -> None:
    steps = told(
        AnswerParts("call"),
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"reasoning_content": "m"},
        {"content": "So: "},
        call(0, name="f", id="a"),
        call(0, '{"x"'),
        call(0, ": 1}"),
        call(1, "{}", name="g", id="b"),
    )
    assert steps == [
        ("begun", 0, "reasoning"),
        ("grown", 0, "hm"),
        ("grown", 0, "m"),
        ("ended", 0, "reasoning"),
        ("begun", 1, "text"),
        ("grown", 1, "So: "),
        ("ended", 1, "text"),
        ("begun", 2, "call"),
        ("grown", 2, '{"x"'),
        ("grown", 2, ": 1}"),
        ("ended", 2, "call"),
        ("begun", 3, "call"),
        ("grown", 3, "{}"),
        ("ended", 3, "call"),
    ]


def test_nothing_said_is_no_part() -> None:
    assert told(AnswerParts("call"), {"role": "assistant", "content": ""}, {"content": None}, {}) == []


@pytest.mark.parametrize(
    ("delta", "finish_reason", "cut"),
    [
        ({"reasoning": "a", "content": "b"}, "length", [False, True]),
        ({"reasoning": "a", "content": "b"}, "content_filter", [False, True]),
        ({"reasoning": "a", "content": "b"}, "stop", [False, False]),
        ({"content": "b", **call(0, "{}", name="f")}, "length", [False, False]),
        ({"content": "b", **call(0, '{"a"', name="f")}, "length", [False, True]),
        ({"content": "b", **call(0, '{"a"', name="f")}, "stop", [False, True]),
        ({"content": "b", **call(0, name="f")}, "length", [False, True]),
        ({"content": "b", **call(0, name="f")}, "stop", [False, False]),
        ({"content": "b", **call(0)}, "length", [False]),
    ],
)
def test_what_was_cut_off(delta: dict[str, object], finish_reason: str, cut: list[bool]) -> None:
    parts = AnswerParts("call")
    list(parts.add(choice(delta=delta)))
    list(parts.add(choice(delta={}, finish_reason=finish_reason)))
    list(parts.end())
    assert [part.cut for part in parts.parts] == cut
    whole = parts_of(choice(message=delta, finish_reason=finish_reason), "call")
    assert [part.cut for part in whole] == cut


def test_a_call_that_a_stop_text_ended_is_cut() -> None:
    for arguments in ("", '{"a": 1'):
        message = {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": arguments}}]}
        (part,) = parts_of(choice(message=message, finish_reason="stop", stop_reason="END"), "call")
        assert (part.cut, part.text) == (True, arguments)


@pytest.mark.parametrize("arguments", ["", " ", None])
def test_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    parts = AnswerParts("call")
    assert told(parts, {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": arguments}}]}, {})[-2:] == [
        ("grown", 0, "{}"),
        ("ended", 0, "call"),
    ]
    assert parts.parts[0].is_whole_call


def test_a_whole_answer_has_the_same_parts() -> None:
    whole = choice(
        message={
            "reasoning": "hmm",
            "content": "So: ",
            "tool_calls": [
                {"id": "a", "function": {"name": "f", "arguments": "{}"}},
                {"function": {"name": "g", "arguments": "[]"}},
            ],
        },
        logprobs=logprobs("<think>", "hmm", "</think>", "So", ": ", "<tool_call>", "So"),
    )
    parts = parts_of(whole, "call_k")
    assert [(part.kind, part.text, part.name, part.call_id) for part in parts] == [
        ("reasoning", "hmm", "", ""),
        ("text", "So: ", "", ""),
        ("call", "{}", "f", "a"),
        ("call", "[]", "g", "call_k_1"),
    ]
    assert names(parts[1].logprobs) == ["So", ": "]


def test_log_probabilities_of_half_a_character_are_kept() -> None:
    parts = AnswerParts("call")
    for delta, token in (({"content": "a"}, "a"), ({"content": ""}, "half"), ({"content": "é"}, "other half")):
        list(parts.add(choice(delta=delta, logprobs={"content": [{"token": token}]})))
    (part,) = parts.parts
    assert part.text == "aé"
    assert [each["token"] for each in part.logprobs] == ["a", "half", "other half"]


def test_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    parts = AnswerParts("call")
    for delta in (
        call(None, "{", name="f", id="a"),
        call(None, "}", id="a"),
        call(None),
        call(None, "{}", name="f", id="b"),
    ):
        list(parts.add(choice(delta=delta)))
    assert [(part.call_id, part.text) for part in parts.parts] == [("a", "{}"), ("b", "{}")]


def test_calls_whose_pieces_are_mixed_are_told_one_after_the_other() -> None:
    steps = told(
        AnswerParts("call"),
        call(0, name="f", id="a"),
        call(1, '{"y"', name="g", id="b"),
        call(0, '{"x": 1'),
        call(1, ": 2}"),
        call(0, "}"),
        call(1, " "),
    )
    assert steps == [
        ("begun", 0, "call"),
        ("grown", 0, '{"x": 1'),
        ("grown", 0, "}"),
        ("ended", 0, "call"),
        ("begun", 1, "call"),
        ("grown", 1, '{"y": 2}'),
        ("grown", 1, " "),
        ("ended", 1, "call"),
    ]


def test_a_call_waits_for_its_name() -> None:
    parts = AnswerParts("call")
    steps = told(parts, call(0, "{", id="a"), call(0, '"x": 1', name="f"), call(0, "}"))
    assert steps == [
        ("begun", 0, "call"),
        ("grown", 0, '{"x": 1'),
        ("grown", 0, "}"),
        ("ended", 0, "call"),
    ]
    assert (parts.parts[0].name, parts.parts[0].call_id) == ("f", "a")


def test_a_call_without_a_name_is_the_upstream_s_failure_unless_it_was_cut_off() -> None:
    parts = AnswerParts("call")
    list(parts.add(choice(delta=call(0, name="f"))))
    list(parts.add(choice(delta=call(1, "{}"))))
    with pytest.raises(UpstreamFailed, match="without a name"):
        list(parts.end())


def test_blanks_between_the_pieces_of_a_call_are_no_text() -> None:
    steps = told(AnswerParts("call"), call(0, '{"x"', name="f"), {"content": "\n"}, call(0, ": 1}"), {"content": "\n"})
    assert [step for step in steps if step[0] == "begun"] == [("begun", 0, "call")]
    steps = told(AnswerParts("call"), call(0, "{}", name="f"), {"content": "\n"}, {"content": "Done."})
    assert steps[-2:] == [("grown", 1, "\nDone."), ("ended", 1, "text")]


def test_a_refusal_is_a_part_of_its_own() -> None:
    parts = AnswerParts("call")
    assert told(parts, {"refusal": "I can"}, {"refusal": "not."})[0] == ("begun", 0, "refusal")
    assert parts.parts[0].text == "I cannot."


def test_a_text_that_begins_with_half_a_character_has_all_its_log_probabilities() -> None:
    parts = AnswerParts("call")
    halves = [{"token": "\ufffd", "bytes": [each]} for each in "é".encode()]
    list(parts.add(choice(delta={"role": "assistant", "content": ""})))
    list(parts.add(choice(delta={"content": ""}, logprobs={"content": halves[:1]})))
    list(parts.add(choice(delta={"content": "é"}, logprobs={"content": halves[1:]})))
    assert parts.parts[0].logprobs == halves


ANSWER = (
    ({}, ("<think>",)),
    ({"reasoning_content": "The"}, ("\nThe",)),
    ({}, ("</think>",)),
    ({}, ("\n\n",)),
    ({"content": "The "}, ("The ",)),
    ({}, ("<|hidden|>",)),
    ({"content": "end"}, ("end",)),
    (call(0, "{}", name="f"), ("<tool_call>", "The ")),
    ({}, ("</tool_call>",)),
    ({"content": "\n"}, ("\n",)),
    ({"content": "Done"}, ("Done",)),
    ({}, ("<|end|>",)),
)
"""Deltas, each with the tokens that came with it."""


def test_log_probabilities_are_those_of_the_text_alone() -> None:
    streamed = AnswerParts("call")
    for delta, tokens in ANSWER:
        list(streamed.add(choice(delta=delta, logprobs=logprobs(*tokens))))
    list(streamed.end())
    told = [each for part in streamed.parts for each in names(part.logprobs)]
    assert told == ["The ", "end", "\n", "Done"]
    message = {
        "reasoning_content": "The",
        "content": "The end\nDone",
        "tool_calls": call(0, "{}", name="f")["tool_calls"],
    }
    tokens = [token for _, each in ANSWER for token in each]
    whole = parts_of(choice(message=message, logprobs=logprobs(*tokens)), "call")
    assert names(whole[1].logprobs) == told
    assert not whole[0].logprobs
    assert not whole[2].logprobs


def test_log_probabilities_that_cannot_be_told_apart() -> None:
    """All of them, where nothing but text is there; none where they may be of something else."""
    strange = {"content": [{"token": "\ufffd", "bytes": None}, {"token": "b"}]}
    (text,) = parts_of(choice(message={"content": "Ab"}, logprobs=strange), "call")
    assert names(text.logprobs) == ["\ufffd", "b"]
    _, text = parts_of(choice(message={"reasoning": "x", "content": "Ab"}, logprobs=strange), "call")
    assert text.logprobs == []


def test_a_call_that_had_ended_cannot_go_on() -> None:
    parts = AnswerParts("call")
    list(parts.add(choice(delta=call(0, "{}", name="f"))))
    list(parts.add(choice(delta=call(1, name="g"))))
    with pytest.raises(UpstreamFailed, match="mixed up"):
        list(parts.add(choice(delta=call(0, "{}"))))


@pytest.mark.parametrize("body", [b"[]", b'{"choices": 1}', b'{"choices": []}', b"{}", b'{"choices": [{"index": 1}]}'])
def test_what_is_no_chat_completion_is_the_upstream_s_failure(body: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        read_answer(body)


def test_an_error_in_a_stream_is_told_in_its_words() -> None:
    with pytest.raises(UpstreamFailed, match="out of memory"):
        read_chunk(SseEvent(b'{"error": {"message": "out of memory", "code": 500}}'))
    with pytest.raises(UpstreamFailed, match="failed"):
        read_chunk(SseEvent(b'{"error": {"message": null}}'))
    assert read_chunk(SseEvent(b'{"choices": [], "usage": {"prompt_tokens": 3}}')).first is None


@pytest.mark.parametrize("kind", [CapacityUnavailable, ContextTooLong, DeadlineExceeded, InternalError])
def test_an_error_in_a_stream_stays_what_it_is(kind: type[ForebayError]) -> None:
    (event,) = SseParser().feed(error_event(kind("what was wrong")))
    with pytest.raises(kind, match="what was wrong"):
        read_chunk(event)


@pytest.mark.parametrize("code", ["invalid_api_key", "model_not_found", "theirs", None, 503, [], {}])
def test_what_only_the_operator_can_mend_is_the_upstream_s_failure(code: object) -> None:
    with pytest.raises(UpstreamFailed):
        read_chunk(SseEvent(msgspec.json.encode({"error": {"message": "no", "code": code}})))


def test_counts_that_are_null_are_0() -> None:
    usage = read_chunk(SseEvent(b'{"usage": {"prompt_tokens": null, "completion_tokens": 2}}')).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (0, 2, 0)
