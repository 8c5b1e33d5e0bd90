"""What an answer is made of, in the order in which it comes."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TextPiece:
    """More of the content."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """Call number `index` (from 0) begins; its name is whole."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsPiece:
    """More of the JSON text of a call's arguments."""

    index: int
    text: str


Piece = TextPiece | ReasoningPiece | ToolCallPiece | ArgumentsPiece


class OutputParser(Protocol):
    """Reads one generation's text. What it gave out it never takes back, and no text makes it raise."""

    def push(self, text: str) -> list[Piece]:
        """What has become certain with `text`; held back is only what may still turn out to be a marker or a call."""
        ...

    def flush(self) -> list[Piece]:
        """What was held back, at the end of the generation."""
        ...

    @property
    def in_call(self) -> bool:
        """After `flush`: whether the generation ended within a call, before the arguments were whole."""
        ...


class PlainParser:
    """All of the text is content."""

    def push(self, text: str) -> list[Piece]:
        return [TextPiece(text)] if text else []

    def flush(self) -> list[Piece]:
        return []

    @property
    def in_call(self) -> bool:
        return False
