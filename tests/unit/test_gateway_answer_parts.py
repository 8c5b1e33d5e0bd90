"""An answer as a row of parts, from one piece or from many."""

import msgspec
import pytest

from forebay.api.sse import SseEvent
from forebay.core.errors import UpstreamFailed
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


def test_only_the_last_part_is_told_to_be_last() -> None:
    parts = AnswerParts("call")
    steps = [*parts.add(choice(delta={"reasoning": "a", "content": "b"})), *parts.end()]
    assert [step.last for step in steps if isinstance(step, Ended)] == [False, True]


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
        logprobs={"content": [{"token": "So"}]},
    )
    parts = parts_of(whole, "call_k")
    assert [(part.kind, part.text, part.name, part.call_id) for part in parts] == [
        ("reasoning", "hmm", "", ""),
        ("text", "So: ", "", ""),
        ("call", "{}", "f", "a"),
        ("call", "[]", "g", "call_k_1"),
    ]
    assert parts[1].logprobs == [{"token": "So"}]


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


def test_a_call_that_had_ended_cannot_go_on() -> None:
    parts = AnswerParts("call")
    list(parts.add(choice(delta=call(0, name="f"))))
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
