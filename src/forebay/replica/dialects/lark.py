"""Pieces of grammars in llguidance's Lark dialect."""

import re
from collections.abc import Callable

import msgspec

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.lark import is_gbnf
from forebay.engine.grammar.sources import any_of
from forebay.engine.request import Grammar

TokenId = Callable[[str], int | None]
"""The id of the one token that is written so, if there is one."""

_PATTERN_PART = re.compile(r"\\?\n|\\.|/")
_WRITTEN = {"\n": r"\n", "\\\n": r"\n", "/": r"\/"}


def literal(text: str) -> str:
    """Exactly `text`."""
    return msgspec.json.encode(text).decode()


def marker(text: str, token_id: TokenId) -> str:
    """A marker of the model. Where it is one token it has to be named by its id: llguidance takes tokens in angle
    brackets for special ones, which no text matches.
    """
    found = token_id(text)
    return literal(text) if found is None else f"<[{found}]>"


def pattern(regex: str) -> str:
    """A regular expression."""
    if not regex:
        return '""'
    return "/" + _PATTERN_PART.sub(lambda found: _WRITTEN.get(found[0], found[0]), regex) + "/"


def expression(grammar: Grammar) -> str:
    """What `grammar` matches, as a part of another grammar. Raises InvalidRequest for GBNF."""
    match grammar.kind:
        case "json_object":
            return '%json {"type":"object"}'
        case "json_schema":
            return f"%json {grammar.source}"
        case "regex":
            return pattern(grammar.source)
        case "choice":
            return pattern(any_of(msgspec.json.decode(grammar.source, type=list[str])))
        case "lark":
            if is_gbnf(grammar.source):
                raise InvalidRequest(
                    "structured_outputs.grammar: GBNF cannot be joined with the calls of tools or with reasoning: "
                    "write the grammar in llguidance's Lark dialect, or switch those off (`tool_choice` 'none', "
                    "`reasoning_effort` 'none').",
                    param="structured_outputs.grammar",
                )
            return "%lark {\n" + grammar.source + "\n}"
