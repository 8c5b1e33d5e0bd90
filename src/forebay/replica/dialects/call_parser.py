"""Text with tool calls in it, read while it is written."""

from collections.abc import Callable

from forebay.prompting.tool_family import CallForm
from forebay.replica.dialects.call_reader import CallReader
from forebay.replica.dialects.markers import held_at_end
from forebay.replica.dialects.pieces import Piece, TextPiece


class CallParser:
    """Parts calls from content. Whitespace around calls is dropped, and with `max_calls` what comes after so many; so
    is the beginning of a further call that was cut off before it could be given out.

    `names` are the tools that are known. With `text_ends_calls` an answer that does not begin with a call is text to
    its end. With `only_calls` nothing is text: what is no call is the beginning of one.
    """

    def __init__(
        self,
        form: CallForm,
        names: frozenset[str],
        *,
        max_calls: int | None = None,
        text_ends_calls: bool = False,
        only_calls: bool = False,
    ) -> None:
        self._form = form
        self._names = names
        self._max_calls = max_calls
        self._text_ends_calls = text_ends_calls
        self._only_calls = only_calls
        self._in_unfinished = False
        self._calls = 0
        self._after_call = False
        self._held = ""
        self._reader: CallReader | None = None
        self._next: Callable[[str], str] = self._at_start if form.bare or text_ends_calls else self._in_text
        self._out: list[Piece] = []

    def push(self, text: str) -> list[Piece]:
        rest = self._held + text
        self._held = ""
        while rest:
            rest = self._next(rest)
        return self._given_out()

    def flush(self) -> list[Piece]:
        if self._reader is not None:
            self._in_unfinished = not self._reader.whole
            if self._reader.begun or not self._calls:
                self._out += self._reader.flush()
            self._reader = None
        elif not self._after_call:
            # After a call, what is held is the beginning of a marker that was cut off.
            self._say(self._held)
        self._held = ""
        return self._given_out()

    @property
    def in_call(self) -> bool:
        return self._in_unfinished

    def _given_out(self) -> list[Piece]:
        out, self._out = self._out, []
        return [piece for piece in out if not isinstance(piece, TextPiece)] if self._only_calls else out

    def _at_start(self, text: str) -> str:
        """Nothing but whitespace has come, so far."""
        return self._maybe_call(text, self._in_plain_text if self._text_ends_calls else self._in_text)

    def _after(self, text: str) -> str:
        """After a call."""
        closing = self._form.closing
        stripped = text.lstrip(self._form.between)
        if closing and stripped.startswith(closing):
            self._next = self._in_text
            return stripped[len(closing) :]
        if closing.startswith(stripped):
            self._held = text
            return ""
        return self._maybe_call(stripped, self._in_text)

    def _maybe_call(self, text: str, otherwise: Callable[[str], str]) -> str:
        """A call, if one begins right here, or else what `otherwise` reads."""
        opening = self._form.opening
        stripped = text.lstrip()
        start = len(text) - len(stripped)
        if opening.startswith(stripped):
            self._held = text
            return ""
        if stripped.startswith(opening):
            return self._begin_call(text, 0, start + len(opening))
        if self._form.bare and stripped.startswith("{"):
            return self._begin_call(text, 0, start, self._names)
        self._next = otherwise
        return text

    def _in_text(self, text: str) -> str:
        opening = self._form.opening
        at = text.find(opening)
        certain = text[: at if at >= 0 else len(text) - held_at_end(text, opening)].rstrip()
        self._say(certain)
        if at >= 0:
            return self._begin_call(text, len(certain), at + len(opening))
        self._held = text[len(certain) :]
        return ""

    def _in_plain_text(self, text: str) -> str:
        self._say(text)
        return ""

    def _in_nothing(self, text: str) -> str:
        """All calls that there may be have come."""
        del text
        return ""

    def _begin_call(self, text: str, start: int, end: int, names: frozenset[str] | None = None) -> str:
        """The call's object begins at `end`; what leads to it begins at `start`."""
        self._reader = CallReader(self._calls, names=names, before=text[start:end])
        self._next = self._in_call
        return text[end:]

    def _in_call(self, text: str) -> str:
        reader = self._reader
        assert reader is not None
        pieces, end = reader.push(text)
        self._out += pieces
        if reader.state == "done":
            self._calls += 1
            self._after_call = True
            self._next = self._in_nothing if self._calls == self._max_calls else self._after
            self._reader = None
        elif reader.state == "broken":
            self._out += reader.flush()
            self._after_call = False
            self._next = self._in_text
            self._reader = None
        return text[end:]

    def _say(self, text: str) -> None:
        if self._after_call:
            text = text.lstrip()
        if text:
            self._after_call = False
            self._out.append(TextPiece(text))
