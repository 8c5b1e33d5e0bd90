"""Token ids to text, piece by piece, stopping at stop strings."""

from collections.abc import Callable, Sequence

_REPLACEMENT = "\ufffd"
_MAX_TOKENS_OF_A_CHARACTER = 4
"""UTF-8 has at most four bytes a character and a token has at least one: what is longer open is not a character."""


class Detokenizer:
    """Turns one generation's tokens into text that never has to be taken back.

    Held back are bytes of a character that is not complete, and text that may be the beginning of a stop string.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str], *, keep_stop: bool = False) -> None:
        self._decode = decode
        self._stop = stop
        self._keep_stop = keep_stop
        self._token_ids: list[int] = []
        self._window_start = 0
        self._read_end = 0
        self._held = ""
        self.stopped_at: str | None = None
        """The stop string that has been met; what comes after it is dropped, and itself unless it is to be kept."""

    def push(self, token_id: int, *, may_stop: bool = True) -> str:
        """The text that has become certain with this token. Unless it `may_stop`, stop strings are text like any."""
        self._token_ids.append(token_id)
        known, text = self._decode_window()
        pending = len(self._token_ids) - self._read_end
        if text.endswith(_REPLACEMENT) and pending < _MAX_TOKENS_OF_A_CHARACTER:
            return ""
        # The window keeps the last piece: what a token looks like can depend on the one before it.
        self._window_start = self._read_end
        self._read_end = len(self._token_ids)
        new = text[len(known) :]
        return self._release(new) if may_stop else new

    def _decode_window(self) -> tuple[str, str]:
        """The text of the window's tokens that have been read, and of all of them."""
        return (
            self._decode(self._token_ids[self._window_start : self._read_end]),
            self._decode(self._token_ids[self._window_start :]),
        )

    def flush(self) -> str:
        """What is still held back, at the end of the generation."""
        known, text = self._decode_window()
        self._read_end = len(self._token_ids)
        certain = self._release(text[len(known) :])
        held, self._held = self._held, ""
        return certain + held

    def _release(self, new: str) -> str:
        if self.stopped_at is not None:
            return ""
        text = self._held + new
        found = [(at, stop) for at, stop in ((text.find(stop), stop) for stop in self._stop) if at >= 0]
        if found:
            at, self.stopped_at = min(found)
            self._held = ""
            return text[: at + len(self.stopped_at)] if self._keep_stop else text[:at]
        keep = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a beginning of `stop` (but not all of it)."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
