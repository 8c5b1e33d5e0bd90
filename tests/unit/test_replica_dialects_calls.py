"""Tool calls are read out of a text while it comes, in whatever pieces."""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.prompting.tool_family import HERMES, LLAMA, ToolFamily
from forebay.replica.dialects.call_parser import CallParser
from forebay.replica.dialects.pieces import (
    ArgumentsPiece,
    OutputParser,
    Piece,
    ReasoningPiece,
    TextPiece,
    ToolCallPiece,
)
from forebay.replica.dialects.reasoning import ReasoningParser

NAMES = frozenset({"weather", "now"})
OSLO = '{"city": "Oslo"}'


def hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def llama(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "parameters": {arguments}}}'


def parser(
    family: ToolFamily, *, max_calls: int | None = None, text_ends_calls: bool = False, only_calls: bool = False
) -> CallParser:
    return CallParser(family.form, NAMES, max_calls=max_calls, text_ends_calls=text_ends_calls, only_calls=only_calls)


def joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours of one kind as one."""
    found: list[Piece] = []
    for piece in pieces:
        match found[-1:], piece:
            case [TextPiece(before)], TextPiece(text):
                found[-1] = TextPiece(before + text)
            case [ReasoningPiece(before)], ReasoningPiece(text):
                found[-1] = ReasoningPiece(before + text)
            case [ArgumentsPiece(index, before)], ArgumentsPiece(same, text) if index == same:
                found[-1] = ArgumentsPiece(index, before + text)
            case _:
                found.append(piece)
    return found


def read(reading: OutputParser, text: str, cuts: Sequence[int] = ()) -> list[Piece]:
    edges = [0, *sorted(cuts), len(text)]
    pieces = [piece for start, end in pairwise(edges) for piece in reading.push(text[start:end])]
    return joined([*pieces, *reading.flush()])


def call(index: int, name: str, arguments: str) -> list[Piece]:
    return [ToolCallPiece(index, name), ArgumentsPiece(index, arguments)]


HERMES_TEXTS = {
    hermes("weather", OSLO): call(0, "weather", OSLO),
    f"Let me look < here >. \n{hermes('weather', OSLO)}\n{hermes('now', '{}')}\n": [
        TextPiece("Let me look < here >."),
        *call(0, "weather", OSLO),
        *call(1, "now", "{}"),
    ],
    f"{hermes('now', '{}')} That is all.": [*call(0, "now", "{}"), TextPiece("That is all.")],
    # Brackets, quotes and markers inside of strings are text.
    hermes("weather", r'{"a": ["}]\"</tool_call>\\", {"b": "{"}]}'): call(
        0, "weather", r'{"a": ["}]\"</tool_call>\\", {"b": "{"}]}'
    ),
    '<tool_call>{"arguments": {"city": "Oslo"}, "id": 3, "name": "weather"}</tool_call>': call(0, "weather", OSLO),
    '<tool_call>{"name": "weather", "parameters": {"city": "Oslo"}}</tool_call>': call(0, "weather", OSLO),
    '<tool_call>{"name": "now"}</tool_call>': call(0, "now", "{}"),
    '<tool_call>{"name": "now", "arguments": null}</tool_call>': call(0, "now", "{}"),
    '<tool_call>{"name": "now", "arguments": ""}</tool_call>': call(0, "now", "{}"),
    # A tool that nobody offered is the client's to refuse.
    hermes("other", "{}"): call(0, "other", "{}"),
    # One brace too many, no end marker, the next call at once.
    '<tool_call>\n{"name": "now", "arguments": {}}}\n</tool_call>ok': [*call(0, "now", "{}"), TextPiece("ok")],
    '<tool_call>{"name": "now", "arguments": {}}<tool_call>{"name": "now", "arguments": {}}': [
        *call(0, "now", "{}"),
        *call(1, "now", "{}"),
    ],
    # Arguments that end in the middle of nowhere.
    '<tool_call>{"name": "weather", "arguments": {"city": </tool_call>ok': [
        *call(0, "weather", '{"city": '),
        TextPiece("ok"),
    ],
    '<tool_call>{"name": "weather", "arguments": {"city": "Os': call(0, "weather", '{"city": "Os'),
    '<tool_call>{"name": "weather", "arg': [TextPiece('<tool_call>{"name": "weather", "arg')],
    "so \n<tool_call>": [TextPiece("so \n<tool_call>")],
    "so <tool_": [TextPiece("so <tool_")],
    "so \n": [TextPiece("so \n")],
    f"<tool_call>\nnothing</tool_call>{hermes('now', '{}')}": [
        TextPiece("<tool_call>\nnothing</tool_call>"),
        *call(0, "now", "{}"),
    ],
    '<tool_call>{"name": 3, "arguments": {}}</tool_call>': [
        TextPiece('<tool_call>{"name": 3, "arguments": {}}</tool_call>')
    ],
    '<tool_call>{"arguments": {}}</tool_call>': [TextPiece('<tool_call>{"arguments": {}}</tool_call>')],
    "": [],
}
LLAMA_TEXTS = {
    llama("weather", OSLO): call(0, "weather", OSLO),
    f"<|python_tag|>{llama('weather', OSLO)}": call(0, "weather", OSLO),
    f"\n{llama('weather', OSLO)}; {llama('now', '{}')}\n": [*call(0, "weather", OSLO), *call(1, "now", "{}")],
    f"Wait.\n<|python_tag|>{llama('other', '{}')}": [TextPiece("Wait."), *call(0, "other", "{}")],
    '{"type": "function", "name": "now", "parameters": {}}': call(0, "now", "{}"),
    # JSON that is an answer: an unknown name, another key, or not at the beginning.
    llama("Bob", "{}"): [TextPiece(llama("Bob", "{}"))],
    '{"name": "now", "age": 3}': [TextPiece('{"name": "now", "age": 3}')],
    f"Call {llama('now', '{}')}": [TextPiece(f"Call {llama('now', '{}')}")],
    f"{llama('now', '{}')}; {llama('Bob', '{}')}": [*call(0, "now", "{}"), TextPiece(llama("Bob", "{}"))],
    '<|python_tag|>search("x")': [TextPiece('<|python_tag|>search("x")')],
    "{": [TextPiece("{")],
}


@pytest.mark.parametrize(("text", "expected"), HERMES_TEXTS.items())
def test_a_hermes_text(text: str, expected: list[Piece]) -> None:
    assert read(parser(HERMES), text) == expected
    assert read(parser(HERMES), text, range(1, len(text))) == expected


@pytest.mark.parametrize(("text", "expected"), LLAMA_TEXTS.items())
def test_a_llama_text(text: str, expected: list[Piece]) -> None:
    assert read(parser(LLAMA), text) == expected
    assert read(parser(LLAMA), text, range(1, len(text))) == expected


PARTS = [
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    '{"name": "now", ',
    '"arguments": ',
    '"parameters": ',
    "{",
    "}",
]
PARTS += [
    '{"a": [1, "x"]}',
    '"{\\"a\\": \\"\\\\u00e9\\"}"',
    "null",
    ";",
    ",",
    " ",
    "\n",
    "<",
    "\\",
    '"',
    "text",
    "<think>",
]
PARTS += ["</think>", hermes("weather", OSLO), llama("weather", OSLO)]


@given(
    st.lists(st.sampled_from(PARTS), max_size=12).map("".join),
    st.data(),
    st.sampled_from([HERMES, LLAMA]),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_how_a_text_is_cut_changes_nothing(
    text: str, data: st.DataObject, family: ToolFamily, max_calls: int | None, text_ends_calls: bool
) -> None:
    def fresh() -> OutputParser:
        inner = parser(family, max_calls=max_calls, text_ends_calls=text_ends_calls)
        return ReasoningParser(inner, begun=False)

    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=len(text)))
    assert read(fresh(), text, cuts) == read(fresh(), text)


def test_text_and_arguments_come_as_they_are_written() -> None:
    reading = parser(HERMES)
    assert reading.push("Let me") == [TextPiece("Let me")]
    assert reading.push(" see.") == [TextPiece(" see.")]
    assert reading.push("\n<tool_call>\n") == []
    assert reading.push('{"name": "weather"') == []
    assert reading.push(', "arguments": {"ci') == [ToolCallPiece(0, "weather"), ArgumentsPiece(0, '{"ci')]
    assert reading.push('ty": ') == [ArgumentsPiece(0, 'ty": ')]
    assert reading.push('"Oslo"}}\n</tool_call>') == [ArgumentsPiece(0, '"Oslo"}')]
    assert reading.flush() == []


def test_only_what_may_be_a_marker_is_held_back() -> None:
    reading = parser(HERMES)
    assert reading.push("a <") == [TextPiece("a")]
    assert reading.push("b") == [TextPiece(" <b")]
    assert reading.push("<tool") == []
    assert reading.push("s>") == [TextPiece("<tools>")]


@pytest.mark.parametrize(
    "wrapped",
    [OSLO, '{"city": "S\\u00e3o \\ud83d\\ude00"}', '{"city": "a\\\\b\\n"}', '{"text": "é\t"}'],
)
def test_arguments_written_as_a_string_are_unwrapped(wrapped: str) -> None:
    text = hermes("weather", json.dumps(wrapped, ensure_ascii=False))
    for cuts in ((), range(1, len(text))):
        assert read(parser(HERMES), text, cuts) == call(0, "weather", wrapped)


def test_half_a_surrogate_pair_in_wrapped_arguments_can_still_be_sent() -> None:
    (_, arguments) = read(parser(HERMES), hermes("weather", '"\\"\\ud83d\\""'))
    assert isinstance(arguments, ArgumentsPiece)
    assert arguments.text.encode() == '"\ufffd"'.encode()


def test_a_name_that_cannot_be_sent_makes_no_call() -> None:
    text = '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'
    assert read(parser(HERMES), text) == [TextPiece(text)]


@pytest.mark.parametrize("family", [HERMES, LLAMA])
def test_what_comes_after_as_many_calls_as_there_may_be_is_dropped(family: ToolFamily) -> None:
    one = hermes("now", "{}") if family is HERMES else llama("now", "{}")
    assert read(parser(family, max_calls=1), f"{one}{family.separator}{one} and more") == call(0, "now", "{}")


def test_an_answer_that_does_not_begin_with_a_call_has_none_where_it_is_one_or_the_other() -> None:
    text = f'{{"said": "{hermes("now", "{}")}"}}'
    assert read(parser(HERMES, text_ends_calls=True), text) == [TextPiece(text)]
    first = read(parser(HERMES, text_ends_calls=True), f" {hermes('now', '{}')}")
    assert first == call(0, "now", "{}")


def test_a_marker_that_is_cut_off_after_a_call_is_no_text() -> None:
    first = hermes("now", "{}")
    assert read(parser(HERMES), f"{first}\n<tool_c") == call(0, "now", "{}")
    assert read(parser(HERMES), first[: -len("ool_call>")]) == call(0, "now", "{}")
    assert read(parser(HERMES), "so <tool_c") == [TextPiece("so <tool_c")]


ENFORCED = [
    (HERMES, f"{hermes('weather', OSLO)}\n{hermes('now', '{}')}"),
    (LLAMA, f"{llama('weather', OSLO)}; {llama('now', '{}')}"),
    (LLAMA, f"<|python_tag|>{llama('weather', OSLO)}; {llama('now', '{}')}"),
]


@pytest.mark.parametrize(("family", "text"), ENFORCED)
def test_an_enforced_answer_that_is_cut_off_is_calls_alone(family: ToolFamily, text: str) -> None:
    whole = [*call(0, "weather", OSLO), *call(1, "now", "{}")]
    for end in range(len(text) + 1):
        reading = parser(family, only_calls=True)
        pieces = read(reading, text[:end], range(1, end))
        assert len(pieces) <= len(whole)
        for piece, expected in zip(pieces, whole, strict=False):
            if isinstance(piece, ArgumentsPiece) and isinstance(expected, ArgumentsPiece):
                assert expected.text.startswith(piece.text)
            else:
                assert piece == expected
        if not reading.in_call:
            assert all(json.loads(piece.text) is not None for piece in pieces if isinstance(piece, ArgumentsPiece))
            assert len(pieces) % 2 == 0, "each call has its arguments"


@pytest.mark.parametrize(
    ("family", "text", "in_call"),
    [
        (HERMES, '<tool_call>{"name": "weather", "arguments": {"city": "P', True),
        (HERMES, '<tool_call>{"name": "weather", "arguments": {"city": "P"', True),
        (HERMES, '<tool_call>{"name": "weather", "arguments": ', True),
        (HERMES, '<tool_call>{"name": "wea', True),
        (HERMES, '<tool_call>{"name": "weather", "arguments": {"city": "P"}', False),
        (HERMES, '<tool_call>{"name": "weather", "arguments": "{\\"city\\": ', True),
        (HERMES, hermes("now", "{}"), False),
        (HERMES, "Hello <tool", False),
        (HERMES, f'{hermes("now", "{}")}\n<tool_call>\n{{"name": "weather", "arguments":', True),
        (LLAMA, f'{llama("now", "{}")}; {{"name": "wea', True),
        (LLAMA, llama("now", "{}"), False),
        (LLAMA, '{"name": "weather", "parameters": {"city": ', True),
    ],
)
def test_a_parser_knows_whether_the_last_call_is_unfinished(family: ToolFamily, text: str, in_call: bool) -> None:
    for only_calls in (False, True):
        alone = parser(family, only_calls=only_calls)
        after_reasoning = ReasoningParser(parser(family, only_calls=only_calls), begun=False)
        for reading in (alone, after_reasoning):
            read(reading, text)
            assert reading.in_call == in_call


def test_a_further_call_that_is_cut_off_before_its_arguments_is_no_text() -> None:
    first = hermes("now", "{}")
    assert read(parser(HERMES), f'{first}\n<tool_call>\n{{"name": "weather", "arg') == call(0, "now", "{}")
    assert read(parser(LLAMA), f'{llama("now", "{}")}; {{"name": "wea') == call(0, "now", "{}")


def test_arguments_that_are_nothing_are_an_empty_object_in_a_call_that_is_cut_off_after_them() -> None:
    assert read(parser(HERMES), '<tool_call>{"name": "now", "arguments": ""') == call(0, "now", "{}")
