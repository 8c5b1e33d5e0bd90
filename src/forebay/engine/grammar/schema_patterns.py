"""Patterns and formats of JSON schemas, where the grammar library reads them otherwise than JSON Schema does."""

import re

from forebay.engine.grammar.places import Node, refusal

_PIECE = re.compile(r"\\.|&&|--|~~|.", re.DOTALL)

_YEAR = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|{_YEAR}-(?:0[13-9]|1[0-2])-(?:29|30)|"
    rf"{_YEAR}-(?:0[13578]|1[02])-31|{_LEAP_YEAR}-02-29)"
)
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-5][0-9]"
NARROWER: dict[str, Node] = {
    "date": {"pattern": f"^{_DATE}$"},
    "date-time": {"pattern": f"^{_DATE}[Tt]{_CLOCK}"},
    "time": {"pattern": f"^{_CLOCK}"},
    "hostname": {"maxLength": 253},
}
"""Format to what a text must also match: dates that exist, no leap seconds, a name's greatest length."""


def check_pattern(pattern: str, place: str) -> None:
    """Raises InvalidRequest where a character class means something else than in JSON Schema: Rust's syntax has nested
    classes and set operators there.
    """
    inside = False
    for piece in _PIECE.findall(pattern):
        if inside and (piece == "[" or piece in ("&&", "--", "~~")):
            raise refusal(place, f"the pattern {pattern!r} has an unescaped '{piece}' inside a character class")
        if piece in "[]":
            inside = piece == "["
