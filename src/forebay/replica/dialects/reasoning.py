"""What a model thinks before it answers, between `<think>` and `</think>`."""

from collections.abc import Callable
from typing import Literal

from forebay.replica.dialects.markers import held_at_end
from forebay.replica.dialects.pieces import OutputParser, Piece, ReasoningPiece

OPENING = "<think>"
CLOSING = "</think>"

Reasoning = Literal["begun", "possible", "over"]
"""Whether an output is reasoning from its beginning, may begin with `<think>`, or has none."""


def reasoning_after(prompt_text: str, continued: str = "") -> Reasoning:
    """What is to be expected after a prompt that may end with an opened or a closed pair of the marks.

    `continued` is the text of the assistant's message that the prompt ends with and that is to be gone on with.
    """
    end = prompt_text.rstrip()
    if end.endswith(OPENING) or continued.rfind(OPENING) > continued.rfind(CLOSING):
        return "begun"
    return "over" if continued or end.endswith(CLOSING) else "possible"


class ReasoningParser:
    """Parts the reasoning at an output's beginning from what `answer` reads. Whitespace around it is dropped."""

    def __init__(self, answer: OutputParser, *, begun: bool) -> None:
        self._answer = answer
        self._held = ""
        self._said = False
        self._next: Callable[[str], list[Piece]] = self._in_reasoning if begun else self._at_start

    def push(self, text: str) -> list[Piece]:
        return self._next(text)

    def flush(self) -> list[Piece]:
        held, self._held = self._held, ""
        if self._next == self._in_reasoning:
            said = held.rstrip() if self._said else held.strip()
            return [ReasoningPiece(said)] if said else []
        if self._next == self._at_start:
            return [*self._answer.push(held), *self._answer.flush()]
        return self._answer.flush()

    @property
    def in_call(self) -> bool:
        return self._answer.in_call

    def _at_start(self, text: str) -> list[Piece]:
        text = self._held + text
        self._held = ""
        stripped = text.lstrip()
        if OPENING.startswith(stripped):
            self._held = text
            return []
        if not stripped.startswith(OPENING):
            self._next = self._answer.push
            return self._answer.push(text)
        self._next = self._in_reasoning
        return self._in_reasoning(stripped[len(OPENING) :])

    def _in_reasoning(self, text: str) -> list[Piece]:
        text = self._held + text
        if not self._said:
            text = text.lstrip()
        at = text.find(CLOSING)
        certain = text[: at if at >= 0 else len(text) - held_at_end(text, CLOSING)].rstrip()
        self._said = self._said or bool(certain)
        pieces: list[Piece] = [ReasoningPiece(certain)] if certain else []
        if at < 0:
            self._held = text[len(certain) :]
            return pieces
        self._held = ""
        self._next = self._before_answer
        return pieces + self._before_answer(text[at + len(CLOSING) :])

    def _before_answer(self, text: str) -> list[Piece]:
        text = text.lstrip()
        if not text:
            return []
        self._next = self._answer.push
        return self._answer.push(text)
