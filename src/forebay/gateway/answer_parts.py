"""An answer as a row of parts, one after the other: what was thought, what was said, what was called."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from forebay.core.errors import UpstreamFailed
from forebay.gateway.chat_answer import Choice
from forebay.gateway.pending_calls import PendingCalls
from forebay.gateway.text_logprobs import TextLogprobs

PartKind = Literal["reasoning", "text", "refusal", "call"]

NO_ARGUMENTS = "{}"


@dataclass(slots=True)
class Part:
    """One part as far as it is known. The `text` of a call is its arguments, as JSON text; `position` counts from 0."""

    kind: PartKind
    position: int
    text: str = ""
    call_id: str = ""
    name: str = ""
    logprobs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    cut: bool = False
    """Whether it is known to have been cut off, once it has ended."""

    @property
    def is_whole_call(self) -> bool:
        """Whether it calls with a whole JSON object."""
        if self.kind != "call":
            return False
        try:
            msgspec.json.decode(self.text, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            return False
        return True


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
    """No more comes to the part; it is whole, but where it was `cut`."""

    part: Part


Step = Begun | Grown | Ended


class AnswerParts:
    """Collects the parts of one answer from its chunks, or from the whole of it as if that were one chunk.

    `call_prefix` makes ids for calls that came without one.
    """

    def __init__(self, call_prefix: str) -> None:
        self._call_prefix = call_prefix
        self._calls = PendingCalls()
        self._logprobs = TextLogprobs()
        self._blank = ""
        """Blanks after a call: text where text follows, nothing where the calls go on or the answer ends."""
        self._cut = False
        self._stopped = False
        self.parts: list[Part] = []

    def add(self, choice: Choice) -> Iterator[Step]:
        """What `choice` changes. Raises UpstreamFailed where it goes back to a call that had ended."""
        said = choice.said
        self._cut = self._cut or choice.is_cut
        self._stopped = self._stopped or choice.is_stopped
        if choice.message is None and (said.thought or said.tool_calls):
            self._logprobs.clear()
        self._logprobs.add(choice.token_logprobs)
        if said.thought:
            self._blank = ""
            self._logprobs.pass_over(said.thought)
            yield from self._grow("reasoning", said.thought)
        if said.content:
            yield from self._say(said.content, plain=not (said.thought or said.tool_calls))
        if said.refusal:
            yield from self._grow("refusal", said.refusal)
        for position, call in enumerate(said.tool_calls or ()):
            self._blank = ""
            self._calls.add(call, position if choice.message else None)
            yield from self._tell_calls(all_of_them=False)

    def end(self) -> Iterator[Step]:
        """What was held back, and the last part's end. Raises UpstreamFailed where a call has no name."""
        yield from self._tell_calls(all_of_them=True)
        if self._calls.waiting and not (self._cut or self._stopped):
            raise UpstreamFailed("The model's server made a call without a name. Send the request again.")
        if self.parts:
            yield from self._close(cut=self._cut and not self._calls.waiting)

    @property
    def _open_kind(self) -> PartKind | None:
        return self.parts[-1].kind if self.parts else None

    def _say(self, content: str, *, plain: bool) -> Iterator[Step]:
        if self._open_kind == "call" and not content.strip():
            self._blank += content
            return
        text, self._blank = self._blank + content, ""
        plain = plain and all(part.kind in {"text", "refusal"} for part in self.parts)
        yield from self._grow("text", text, self._logprobs.take(text, otherwise_all=plain))

    def _grow(self, kind: PartKind, text: str, logprobs: list[dict[str, Any]] | None = None) -> Iterator[Step]:
        if self._open_kind != kind:
            yield from self._tell_calls(all_of_them=True)
            yield from self._begin(Part(kind, len(self.parts)))
        yield self._more(text, logprobs or [])

    def _more(self, text: str, logprobs: list[dict[str, Any]]) -> Grown:
        part = self.parts[-1]
        part.text += text
        part.logprobs += logprobs
        return Grown(part, text, logprobs)

    def _tell_calls(self, *, all_of_them: bool) -> Iterator[Step]:
        """The open call's arguments; the next ones only once that is whole, as its pieces and theirs may be mixed."""
        calls = self._calls
        while calls.waiting or calls.open:
            if calls.open and (arguments := calls.open.take()):
                yield self._more(arguments, [])
            if not calls.waiting or (calls.open and not all_of_them and not self.parts[-1].is_whole_call):
                return
            if (call := calls.next(skip_nameless=all_of_them)) is None:
                return
            call_id = call.call_id or f"{self._call_prefix}_{call.index}"
            yield from self._begin(Part("call", len(self.parts), call_id=call_id, name=call.name))
            calls.open = call

    def _begin(self, part: Part) -> Iterator[Step]:
        if self.parts:
            yield from self._close(cut=False)
        self.parts.append(part)
        yield Begun(part)

    def _close(self, *, cut: bool) -> Iterator[Step]:
        """A call whose arguments break off was cut, wherever it stands; one whose arguments are whole was not."""
        part = self.parts[-1]
        if part.kind == "call":
            self._calls.close()
            if not part.text.strip() and not (cut or self._stopped):
                yield self._more(NO_ARGUMENTS, [])
            cut = not part.is_whole_call
        part.cut = cut
        yield Ended(part)


def parts_of(choice: Choice, call_prefix: str) -> list[Part]:
    """The parts of a whole answer. Raises UpstreamFailed where a call has no name."""
    parts = AnswerParts(call_prefix)
    for _ in (*parts.add(choice), *parts.end()):
        pass
    return parts.parts
