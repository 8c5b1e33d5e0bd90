"""One choice of a chat."""

import secrets
from collections.abc import Sequence

from msgspec import UNSET

from forebay.api.chat import AssistantMessage, Delta, FinishReason
from forebay.api.tools import FunctionCall, FunctionCallDelta, ToolCall, ToolCallDelta
from forebay.engine.request import GenerationUpdate
from forebay.replica.dialects.pieces import (
    ArgumentsPiece,
    OutputParser,
    Piece,
    PlainParser,
    ReasoningPiece,
    TextPiece,
    ToolCallPiece,
)


class SpokenChoice:
    """Reads the updates of one generation. `reasoning_tokens` are those whose text the parser took for reasoning; at a
    marker, or where text is held back, it may be off by a few. With `only_calls` it has no content, whatever comes.
    """

    def __init__(self, parser: OutputParser, *, only_calls: bool = False) -> None:
        self._parser = parser
        self._only_calls = only_calls
        self.is_plain = isinstance(parser, PlainParser)
        """Whether all of its text is content, so that there is nothing to be read out of it."""
        self._calls = False
        self._texts = False
        self._unassigned_tokens = 0
        self.begun = False
        self.reasoning_tokens = 0

    def pieces(self, update: GenerationUpdate) -> Sequence[Piece]:
        """What an update says."""
        pieces = self._parser.push(update.text) if update.text else []
        if update.finish_reason is not None:
            pieces = [*pieces, *self._parser.flush()]
        self._unassigned_tokens += len(update.token_ids)
        if pieces:
            self._assign(pieces)
        return pieces

    def _assign(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, ReasoningPiece):
                self.reasoning_tokens += self._unassigned_tokens
                self._unassigned_tokens = 0
            elif isinstance(piece, ToolCallPiece):
                self._calls = True
            elif isinstance(piece, TextPiece):
                self._texts = self._texts or bool(piece.text)
        self._unassigned_tokens = 0

    def finish_reason(self, update: GenerationUpdate) -> FinishReason | None:
        """Why it ended, by the last update. A call that is unfinished is nothing to go and run."""
        calls = self._calls and not self._parser.in_call
        return "tool_calls" if calls and update.finish_reason == "stop" else update.finish_reason

    @property
    def has_empty_content(self) -> bool:
        """After the last update: whether its content is an empty text. With calls, and no text, it has none at all."""
        return not (self._texts or self._calls or self._only_calls)

    def message(self, pieces: Sequence[Piece]) -> AssistantMessage:
        """All of its `pieces` as one message."""
        return message_of(pieces, empty_content=self.has_empty_content)


def delta_of(piece: Piece) -> Delta:
    """A piece as a chunk tells it."""
    match piece:
        case TextPiece(text):
            return Delta(content=text)
        case ReasoningPiece(text):
            return Delta(reasoning_content=text)
        case ToolCallPiece(index, name):
            function = FunctionCallDelta(name=name, arguments="")
            return Delta(tool_calls=[ToolCallDelta(index=index, id=_call_id(), type="function", function=function)])
        case ArgumentsPiece(index, text):
            return Delta(tool_calls=[ToolCallDelta(index=index, function=FunctionCallDelta(arguments=text))])


def message_of(pieces: Sequence[Piece], *, empty_content: bool) -> AssistantMessage:
    """All pieces of a choice as one message. Where it has no text, the content is empty or null."""
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece))
    names = {piece.index: piece.name for piece in pieces if isinstance(piece, ToolCallPiece)}
    arguments: dict[int, list[str]] = {index: [] for index in names}
    for piece in pieces:
        if isinstance(piece, ArgumentsPiece):
            arguments[piece.index].append(piece.text)
    calls = [
        ToolCall(id=_call_id(), function=FunctionCall(name=name, arguments="".join(arguments[index])))
        for index, name in names.items()
    ]
    return AssistantMessage(
        content=text or ("" if empty_content else None),
        reasoning_content=reasoning or UNSET,
        tool_calls=calls or UNSET,
    )


def _call_id() -> str:
    return f"call_{secrets.token_hex(12)}"
