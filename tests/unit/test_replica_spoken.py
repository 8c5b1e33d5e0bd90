"""A choice of a chat: its deltas, its message, and why it ended."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from forebay.engine.request import FinishReason, GenerationUpdate
from forebay.replica.dialects.pieces import (
    ArgumentsPiece,
    Piece,
    PlainParser,
    ReasoningPiece,
    TextPiece,
    ToolCallPiece,
)
from forebay.replica.spoken import SpokenChoice, delta_of, message_of


class Scripted:
    """Answers each text with the pieces that the script has for it."""

    def __init__(self, script: dict[str, Sequence[Piece]], end: Sequence[Piece] = (), *, in_call: bool = False) -> None:
        self._script = script
        self._end = end
        self.in_call = in_call

    def push(self, text: str) -> list[Piece]:
        return list(self._script[text])

    def flush(self) -> list[Piece]:
        return list(self._end)


def update(text: str, tokens: int = 1, finish: FinishReason | None = None) -> GenerationUpdate:
    return GenerationUpdate(text, (0,) * tokens, 1, 0, tokens, finish)


def plain(value: object) -> Any:
    return msgspec.to_builtins(value)


def test_plain_text_passes_through() -> None:
    choice = SpokenChoice(PlainParser())
    assert choice.pieces(update("a")) == [TextPiece("a")]
    assert choice.pieces(update("")) == []
    end = update("b", finish="length")
    assert choice.pieces(end) == [TextPiece("b")]
    assert choice.finish_reason(end) == "length"
    assert choice.reasoning_tokens == 0
    assert choice.is_plain
    assert not SpokenChoice(Scripted({})).is_plain


@pytest.mark.parametrize(("finish", "told"), [("stop", "tool_calls"), ("length", "length")])
def test_a_finished_call_is_a_reason_of_its_own(finish: FinishReason, told: str) -> None:
    choice = SpokenChoice(Scripted({"call": [ToolCallPiece(0, "f")]}, [ArgumentsPiece(0, "{}")]))
    assert choice.finish_reason(update("")) is None
    end = update("call", finish=finish)
    assert choice.pieces(end) == [ToolCallPiece(0, "f"), ArgumentsPiece(0, "{}")]
    assert choice.finish_reason(end) == told


def test_an_unfinished_call_is_no_reason() -> None:
    choice = SpokenChoice(Scripted({"call": [ToolCallPiece(0, "f")]}, in_call=True))
    end = update("call", finish="stop")
    choice.pieces(end)
    assert choice.finish_reason(end) == "stop"


def test_tokens_count_as_reasoning_by_what_their_text_turns_out_to_be() -> None:
    script: dict[str, Sequence[Piece]] = {
        "<think>": [],
        "hm": [ReasoningPiece("hm")],
        "</think>": [],
        "so": [TextPiece("so")],
    }
    choice = SpokenChoice(Scripted(script))
    for text in ("<think>", "hm", "hm", "</think>", "so", "so"):
        choice.pieces(update(text, tokens=2))
    assert choice.reasoning_tokens == 6


def test_deltas_are_openais() -> None:
    first = plain(delta_of(ToolCallPiece(1, "f")))
    (call,) = first["tool_calls"]
    assert call.pop("id").startswith("call_")
    assert call == {"index": 1, "type": "function", "function": {"name": "f", "arguments": ""}}
    assert plain(delta_of(ArgumentsPiece(1, '{"a"'))) == {
        "tool_calls": [{"index": 1, "function": {"arguments": '{"a"'}}]
    }
    assert plain(delta_of(TextPiece("x"))) == {"content": "x"}
    assert plain(delta_of(ReasoningPiece("x"))) == {"reasoning_content": "x"}


def test_a_message_is_all_its_pieces() -> None:
    pieces = [
        ReasoningPiece("h"),
        ReasoningPiece("m"),
        TextPiece("so "),
        TextPiece("be it"),
        ToolCallPiece(0, "f"),
        ArgumentsPiece(0, "{"),
        ArgumentsPiece(0, "}"),
        ToolCallPiece(1, "g"),
    ]
    message = plain(message_of(pieces, empty_content=False))
    ids = [call.pop("id") for call in message["tool_calls"]]
    assert len(set(ids)) == 2
    assert message == {
        "role": "assistant",
        "content": "so be it",
        "refusal": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"type": "function", "function": {"name": "g", "arguments": ""}},
        ],
    }


@pytest.mark.parametrize(
    ("pieces", "only_calls", "content"),
    [
        ([ToolCallPiece(0, "f")], False, None),
        ([TextPiece("so"), ToolCallPiece(0, "f")], False, "so"),
        ([TextPiece(""), ToolCallPiece(0, "f")], False, None),
        ([TextPiece("")], False, ""),
        ([], False, ""),
        ([ReasoningPiece("hm")], False, ""),
        ([], True, None),
        ([ReasoningPiece("hm")], True, None),
    ],
)
def test_content_is_null_only_where_there_are_calls_or_nothing_else_could_be(
    pieces: list[Piece], only_calls: bool, content: str | None
) -> None:
    choice = SpokenChoice(Scripted({"all": pieces}), only_calls=only_calls)
    said = choice.pieces(update("all", finish="length"))
    assert choice.message(said).content == content
    assert choice.has_empty_content == (content == "")
