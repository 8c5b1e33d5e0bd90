"""Where a JSON value ends, and what a JSON text says, while it still comes in pieces."""

import json
import re

_IN_STRING = re.compile(r'["\\]')
_IN_CONTAINER = re.compile(r'["{}\[\]<]')
_SCALAR_END = re.compile(r"[\s,}\]<]")
_WHOLE_CHARACTERS = re.compile(r"(?:[^\\]|\\[^u]|\\u[0-9a-fA-F]{4})*", re.DOTALL)
_HIGH_SURROGATE_AT_END = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


class ValueScanner:
    """Finds the end of one JSON value. It does not judge what is inside, but for a `<` outside of a string, which no
    JSON has: there the value ends too, for a marker of the model begins.
    """

    def __init__(self) -> None:
        self._begun = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def end(self, text: str, start: int) -> int | None:
        """Where in `text`, read on from `start`, the value ends; None where it goes on beyond `text`.

        A container's and a string's end is after its last character, that of another value before the character that
        follows it.
        """
        position = start
        if not self._begun and position < len(text):
            self._begun = True
            self._in_string = text[position] == '"'
            self._depth = int(text[position] in "{[")
            position += self._in_string or self._depth
        while position < len(text):
            if self._in_string:
                position, ended = self._through_string(text, position)
            elif self._depth:
                position, ended = self._through_container(text, position)
            else:
                found = _SCALAR_END.search(text, position)
                return found.start() if found else None
            if ended:
                return position
        return None

    def _through_string(self, text: str, position: int) -> tuple[int, bool]:
        if self._escaped:
            self._escaped = False
            return position + 1, False
        found = _IN_STRING.search(text, position)
        if found is None:
            return len(text), False
        if found[0] == "\\":
            self._escaped = True
            return found.end(), False
        self._in_string = False
        return found.end(), not self._depth

    def _through_container(self, text: str, position: int) -> tuple[int, bool]:
        found = _IN_CONTAINER.search(text, position)
        if found is None:
            return len(text), False
        match found[0]:
            case "<":
                return found.start(), True
            case '"':
                self._in_string = True
            case "{" | "[":
                self._depth += 1
            case _:
                self._depth -= 1
        return found.end(), not self._depth


class StringUnwrapper:
    """The text that a JSON string stands for, without its quotes, given out as the string comes."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> str:
        """More of what stands between the quotes. A part that is no JSON is given out as it is."""
        text = self._held + text
        whole = _WHOLE_CHARACTERS.match(text)
        end = whole.end() if whole else 0
        if pair := _HIGH_SURROGATE_AT_END.search(text, 0, end):
            end = pair.start()
        if len(text) - end > len(r"\uXXXX\uXXX"):
            # An escape that JSON does not know.
            end = len(text)
        self._held = text[end:]
        return _unescaped(text[:end])

    def flush(self) -> str:
        held, self._held = self._held, ""
        return _unescaped(held)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        said = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    # Half of a surrogate pair is no character and could not be sent.
    return said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
