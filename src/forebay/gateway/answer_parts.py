"""An answer as a row of parts, one after the other: what was thought, what was said, what was called."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from forebay.core.errors import UpstreamFailed
from forebay.gateway.chat_answer import Call, Choice

PartKind = Literal["reasoning", "text", "call"]


@dataclass(slots=True)
class Part:
    """One part as far as it is known. The `text` of a call is its arguments, as JSON text; `position` counts from 0."""

    kind: PartKind
    position: int
    text: str = ""
    call_id: str = ""
    name: str = ""
    logprobs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class Begun:
    """A part begins; it is still empty."""

    part: Part


@dataclass(frozen=True, slots=True)
class Grown:
    """`text` and `logprobs` were added to the part."""

    part: Part
    text: str
    logprobs: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Ended:
    """The part is whole; `last` says that none comes after it."""

    part: Part
    last: bool = False


Step = Begun | Grown | Ended


class AnswerParts:
    """Collects the parts of one answer from its chunks, or from the whole of it as if that were one chunk.

    `call_prefix` makes ids for calls that came without one.
    """

    def __init__(self, call_prefix: str) -> None:
        self._call_prefix = call_prefix
        self._call_index: int | None = None
        self.parts: list[Part] = []

    def add(self, choice: Choice) -> Iterator[Step]:
        """What `choice` changes. Raises UpstreamFailed where it goes back to a call that had ended."""
        said = choice.said
        if said.thought:
            yield from self._grow("reasoning", said.thought, [])
        if said.content or (choice.token_logprobs and self._open_kind == "text"):
            yield from self._grow("text", said.content or "", choice.token_logprobs)
        for position, call in enumerate(said.tool_calls or ()):
            yield from self._call(call, position if choice.message else self._index(call))

    def end(self) -> Iterator[Step]:
        """The last part's end."""
        if self.parts:
            yield Ended(self.parts[-1], last=True)

    @property
    def _open_kind(self) -> PartKind | None:
        return self.parts[-1].kind if self.parts else None

    def _grow(self, kind: PartKind, text: str, logprobs: list[dict[str, Any]]) -> Iterator[Step]:
        if self._open_kind != kind:
            yield from self._begin(Part(kind, len(self.parts)))
        part = self.parts[-1]
        part.text += text
        part.logprobs += logprobs
        yield Grown(part, text, logprobs)

    def _index(self, call: Call) -> int:
        """Some servers give a chunk's calls no number; there each new id is the next call."""
        if call.index is not None:
            return call.index
        if self._call_index is None:
            return 0
        return self._call_index + bool(call.id and call.id != self.parts[-1].call_id)

    def _call(self, call: Call, index: int) -> Iterator[Step]:
        if self._open_kind != "call" or index != self._call_index:
            if self._call_index is not None and index <= self._call_index:
                raise UpstreamFailed("The model's server mixed up the parts of two tool calls. Send the request again.")
            self._call_index = index
            name = (call.function and call.function.name) or ""
            call_id = call.id or f"{self._call_prefix}_{index}"
            yield from self._begin(Part("call", len(self.parts), call_id=call_id, name=name))
        if call.function and call.function.arguments:
            yield from self._grow("call", call.function.arguments, [])

    def _begin(self, part: Part) -> Iterator[Step]:
        if self.parts:
            yield Ended(self.parts[-1])
        self.parts.append(part)
        yield Begun(part)


def parts_of(choice: Choice, call_prefix: str) -> list[Part]:
    """The parts of a whole answer."""
    parts = AnswerParts(call_prefix)
    for _ in parts.add(choice):
        pass
    return parts.parts
