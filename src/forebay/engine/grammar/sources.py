"""Each kind of `Grammar` as the library's own form, and pieces to build Lark grammars from."""

import json
from typing import cast

from llguidance import LLMatcher

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.json_schema import enforceable
from forebay.engine.grammar.lark import ready_lark
from forebay.engine.request import Grammar
from forebay.modelfiles.tokenizer import ModelTokenizer

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
            return LLMatcher.grammar_from_regex("|".join(map(_escaped, _choices(grammar.source))))
        case "lark":
            return LLMatcher.grammar_from_lark(ready_lark(grammar.source))


def choice(texts: list[str]) -> Grammar:
    """Exactly one of `texts`."""
    return Grammar("choice", json.dumps(texts))


def lark_text(text: str, tokenizer: ModelTokenizer) -> str:
    """A Lark expression for exactly `text` (not empty), in which the tokenizer's added tokens are those tokens.

    A plain Lark string only ever stands for ordinary tokens: a model that was trained to write `<tool_call>` as one
    token would have to spell it out.
    """
    added = tokenizer.added_tokens
    parts: list[str] = []
    plain = ""
    at = 0
    while at < len(text):
        found = max((name for name in added if name and text.startswith(name, at)), key=len, default=None)
        if found is None:
            plain += text[at]
            at += 1
            continue
        parts += [*([json.dumps(plain)] if plain else []), f"<[{added[found]}]>"]
        plain = ""
        at += len(found)
    return " ".join([*parts, *([json.dumps(plain)] if plain else [])])


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


def _escaped(text: str) -> str:
    """A regular expression for `text` alone."""
    return "".join(char if char.isalnum() else f"\\x{{{ord(char):X}}}" for char in text)
