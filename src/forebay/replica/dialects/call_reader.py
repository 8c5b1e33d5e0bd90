"""One tool call, read while it is written."""

import json
from collections.abc import Callable
from typing import Literal

from forebay.replica.dialects.json_scanning import StringUnwrapper, ValueScanner
from forebay.replica.dialects.pieces import ArgumentsPiece, Piece, TextPiece, ToolCallPiece

_NAME = "name"
_ARGUMENTS = ("arguments", "parameters")
_SPACE = " \t\r\n"
_EMPTY = "{}"


class CallReader:
    """Reads `{"name": …, "arguments": {…}}` (or `parameters`), in whatever pieces it comes.

    The call is given out once its name is known and its arguments begin (or the object ends), the arguments as they
    come. Until then what is read is kept as it is, for it may be no call. `names`, where given, are the only ones that
    make it one, and only keys that a call has; `before` is the text that led to it and goes where it goes.

    `state`: `open` while the object goes on, `done` after its end, `broken` where it is no call: then `flush` gives all
    of it as text.
    """

    def __init__(self, index: int, *, names: frozenset[str] | None = None, before: str = "") -> None:
        self.state: Literal["open", "done", "broken"] = "open"
        self._index = index
        self._names = names
        self._kept = [before]
        self._begun = False
        self._name: str | None = None
        self._next: Callable[[str, int], int] = self._opening
        self._scanner = ValueScanner()
        self._key = ""
        self._collected: list[str] = []
        self._early_arguments: list[str] = []
        self._has_arguments = False
        self._said_arguments = False
        self._unwrapper: StringUnwrapper | None = None
        self._out: list[Piece] = []

    def push(self, text: str, start: int = 0) -> tuple[list[Piece], int]:
        """What has become certain with `text` from `start` on, and where the call ends in it (its length if beyond)."""
        position = start
        while position < len(text) and self.state == "open":
            position = self._next(text, position)
        if not self._begun:
            self._kept.append(text[start:position])
        out, self._out = self._out, []
        return out, position

    def flush(self) -> list[Piece]:
        """What was kept: the text of what never became a call, or the end of arguments that were cut off."""
        if not self._begun:
            kept = "".join(self._kept)
            self._kept = []
            return [TextPiece(kept)] if kept else []
        if self.state == "open" and self._unwrapper is not None:
            self._say(self._unwrapper.flush())
        if self.state == "open" and self.whole and not self._said_arguments:
            self._say(_EMPTY)
        out, self._out = self._out, []
        return out

    @property
    def begun(self) -> bool:
        """Whether the call was given out."""
        return self._begun

    @property
    def whole(self) -> bool:
        """Whether a call was given out whose arguments are over, though its object may still be open."""
        return self._begun and (self.state == "done" or self._next == self._before_key)

    def _opening(self, text: str, position: int) -> int:
        if text[position] in _SPACE:
            return position + 1
        if text[position] != "{":
            return self._break(position)
        self._next = self._before_key
        return position + 1

    def _before_key(self, text: str, position: int) -> int:
        character = text[position]
        if character in _SPACE or character == ",":
            return position + 1
        if character == "}":
            return self._close(position + 1)
        if character != '"':
            return self._break(position)
        self._begin_value(self._in_key)
        return position

    def _in_key(self, text: str, position: int) -> int:
        end = self._collect(text, position)
        if end is not None:
            key = _string("".join(self._collected))
            if key is None or (self._names is not None and key not in (_NAME, "type", *_ARGUMENTS)):
                return self._break(end)
            self._key = key
            self._next = self._before_colon
        return len(text) if end is None else end

    def _before_colon(self, text: str, position: int) -> int:
        if text[position] == ":":
            self._next = self._before_value
        elif text[position] not in _SPACE:
            return self._break(position)
        return position + 1

    def _before_value(self, text: str, position: int) -> int:
        character = text[position]
        if character in _SPACE:
            return position + 1
        if character in ",}]:<":
            return self._break(position)
        if self._key not in _ARGUMENTS or self._has_arguments:
            self._begin_value(self._in_value)
            return position
        self._has_arguments = True
        if self._name is not None and not self._begin_call():
            return self._break(position)
        if character in "{[":
            self._begin_value(self._in_arguments)
        elif character == '"':
            self._unwrapper = StringUnwrapper()
            self._begin_value(self._in_wrapped_arguments)
        else:
            self._begin_value(self._in_scalar_arguments)
        return position

    def _in_value(self, text: str, position: int) -> int:
        end = self._collect(text, position)
        if end is None:
            return len(text)
        if self._key == _NAME and self._name is None:
            self._name = _string("".join(self._collected))
            if not self._name or not self._name.isprintable():
                return self._break(end)
            if self._has_arguments and not self._begin_call():
                return self._break(end)
        self._next = self._before_key
        return end

    def _in_arguments(self, text: str, position: int) -> int:
        end = self._scanner.end(text, position)
        self._say(text[position:end])
        return self._past_value(text, end)

    def _in_wrapped_arguments(self, text: str, position: int) -> int:
        end = self._scanner.end(text, position)
        inside = text[position : len(text) if end is None else end - 1]
        if not self._collected:
            self._collected.append(inside[:1])
            inside = inside[1:]
        assert self._unwrapper is not None
        self._say(self._unwrapper.push(inside))
        if end is not None:
            self._say(self._unwrapper.flush())
            self._unwrapper = None
        return self._past_value(text, end)

    def _in_scalar_arguments(self, text: str, position: int) -> int:
        end = self._collect(text, position)
        if end is not None:
            said = "".join(self._collected)
            self._say(_EMPTY if said == "null" else said)
        return self._past_value(text, end)

    def _past_value(self, text: str, end: int | None) -> int:
        if end is None:
            return len(text)
        self._next = self._before_key
        return end

    def _begin_value(self, reading: Callable[[str, int], int]) -> None:
        self._scanner = ValueScanner()
        self._collected = []
        self._next = reading

    def _collect(self, text: str, position: int) -> int | None:
        end = self._scanner.end(text, position)
        self._collected.append(text[position:end])
        return end

    def _say(self, text: str) -> None:
        if not text:
            return
        self._said_arguments = True
        if self._begun:
            self._out.append(ArgumentsPiece(self._index, text))
        else:
            self._early_arguments.append(text)

    def _begin_call(self) -> bool:
        """Give out the call, unless its name is none of those that make one."""
        if self._name is None or (self._names is not None and self._name not in self._names):
            return False
        self._begun = True
        self._kept = []
        self._out.append(ToolCallPiece(self._index, self._name))
        if self._early_arguments:
            self._out.append(ArgumentsPiece(self._index, "".join(self._early_arguments)))
        return True

    def _close(self, position: int) -> int:
        if not self._begun and not self._begin_call():
            return self._break(position)
        if not self._said_arguments:
            self._say(_EMPTY)
        self.state = "done"
        return position

    def _break(self, position: int) -> int:
        """Here it stops being JSON: a call that was given out is over, anything else never was one."""
        self.state = "done" if self._begun else "broken"
        return position


def _string(text: str) -> str | None:
    """What a JSON string says; None where it is none."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, str) else None
