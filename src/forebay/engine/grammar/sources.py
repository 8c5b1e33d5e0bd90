"""Each kind of `Grammar` as the library's own form."""

import json
from collections.abc import Sequence
from typing import cast

from llguidance import LLMatcher

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.json_schema import enforceable
from forebay.engine.grammar.lark import ready_lark
from forebay.engine.request import Grammar

MOST_SOURCE_CHARS = 256 * 1024
MOST_CHOICES = 10_000


def library_source(grammar: Grammar) -> str:
    """Raises InvalidRequest where the source is no source of that kind, or cannot be enforced."""
    if len(grammar.source) > MOST_SOURCE_CHARS:
        raise InvalidRequest(f"the grammar has more than {MOST_SOURCE_CHARS} characters")
    if any("\ud800" <= char <= "\udfff" for char in grammar.source):
        raise InvalidRequest("the grammar has half of a surrogate pair, which is no character")
    match grammar.kind:
        case "json_object":
            return _json_source('{"type": "object"}')
        case "json_schema":
            return _json_source(grammar.source)
        case "regex":
            return LLMatcher.grammar_from_regex(grammar.source)
        case "choice":
            return LLMatcher.grammar_from_regex(any_of(_choices(grammar.source)))
        case "lark":
            return LLMatcher.grammar_from_lark(ready_lark(grammar.source))


def _json_source(text: str) -> str:
    return json.dumps({"grammars": [{"json_schema": enforceable(text)}]})


def _choices(source: str) -> list[str]:
    try:
        texts = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the choices are not JSON: {error}") from error
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in cast(list[object], texts)):
        raise InvalidRequest("the choices must be a list of texts")
    choices = cast(list[str], texts)
    if not 0 < len(choices) <= MOST_CHOICES:
        raise InvalidRequest(f"there must be 1 to {MOST_CHOICES} choices, not {len(choices)}")
    return choices


def any_of(texts: Sequence[str]) -> str:
    """A regular expression for exactly one of `texts`; thousands of them do not slow it down, as they would a grammar's
    alternatives."""
    return "|".join("".join(map(_escaped, text)) for text in texts)


def _escaped(character: str) -> str:
    return character if character.isalnum() else f"\\x{{{ord(character):X}}}"
