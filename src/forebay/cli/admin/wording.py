"""What the API and the decoder say, in the words of the command line."""

import re
from typing import Any, get_args

_LISTED_BY_API = re.compile(r"GET /admin/v1/(tenant|key|quota|price|prompt)s lists them(, POST creates one)?", re.ASCII)
_PATTERN = re.compile(r"expected `str` matching regex '(.+?)'(?=\W*$| - at )", re.IGNORECASE)
_ENUM = re.compile(r"invalid enum value '", re.IGNORECASE)
PATTERNS = {
    "[A-Za-z0-9]": "letters, digits, . _ -, at most 64, the first a letter or digit",
    "[!-~]": "printable ASCII characters without spaces, at most 400",
}
"""How a pattern of ids begins → what it demands."""


def in_our_words(text: str) -> str:
    """An error's text with commands in place of HTTP calls, and without regular expressions."""
    return _PATTERN.sub(_demanded, _LISTED_BY_API.sub(_listed_here, text))


def with_choices(text: str, type_: Any) -> str:
    """The text of a wrong value, with the values that `type_` has where it is one of a few."""
    choices = list(dict.fromkeys(_choices(type_)))
    return f"{text}; give one of: {', '.join(choices)}" if choices and _ENUM.search(text) else text


def _listed_here(found: re.Match[str]) -> str:
    creates = f", `forebay {found[1]} create` creates one" if found[2] else ""
    return f"`forebay {found[1]} list` lists them{creates}"


def _demanded(found: re.Match[str]) -> str:
    pattern = found[1].removeprefix("^")
    return next((f"expected {told}" for begin, told in PATTERNS.items() if pattern.startswith(begin)), found[0])


def _choices(type_: Any) -> list[str]:
    """Of all literals in a type."""
    return [each for below in get_args(type_) for each in ([below] if isinstance(below, str) else _choices(below))]
