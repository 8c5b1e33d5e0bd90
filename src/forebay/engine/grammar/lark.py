"""Grammars in llguidance's Lark dialect or in GBNF: JSON schemas inside them made ready, and their cost bounded."""

import json
import re
from collections.abc import Iterator

from llguidance.gbnf_to_lark import any_to_lark

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.json_schema import enforceable

MOST_NESTING = 1_000
"""Rules (each has a colon) and opened brackets together. The library follows both on its stack, one inside the other,
and the whole process ends where that is full, at about 2,500.
"""
MOST_ALTERNATIVES = 10_000
"""A mask takes the square of them, half a second at this number; as a regular expression or choice they cost little."""

_TOKEN = re.compile(
    r"""
    (?P<skipped> "(?:\\.|[^"\\\n])*"i? | //[^\n]* | \#[^\n]* | /(?:\\.|[^/\\\n])+/[imslux]* )
  | (?P<json> %json\b\s* )
  | (?P<data> %(?:regex|llguidance)\b\s* )
  | (?P<nests> [(\[{:] )
  | (?P<alternative> \| )
    """,
    re.VERBOSE,
)


def ready_lark(source: str) -> str:
    """The grammar for the library; raises InvalidRequest for what GBNF cannot be read as, for a JSON schema in it that
    cannot be enforced, and for too many rules.
    """
    if is_gbnf(source):
        source = _from_gbnf(source)
    kept: list[str] = []
    nesting, alternatives, end = 0, 0, 0
    while match := _TOKEN.search(source, end):
        kept.append(source[end : match.end()])
        end = match.end()
        nesting += match["nests"] is not None
        alternatives += match["alternative"] is not None
        if match["json"] or match["data"]:
            text, end = _embedded(source, end)
            kept.append(json.dumps(enforceable(text)) if match["json"] else text)
    kept.append(source[end:])
    if nesting > MOST_NESTING:
        raise InvalidRequest(f"the grammar has more than {MOST_NESTING} rules and brackets")
    if alternatives > MOST_ALTERNATIVES:
        raise InvalidRequest(f"the grammar has more than {MOST_ALTERNATIVES} alternatives")
    return "".join(kept)


def schemas_in(source: str) -> Iterator[str]:
    """The JSON schemas inside a grammar that `ready_lark` takes, as they are written."""
    end = 0
    while match := _TOKEN.search(source, end):
        end = match.end()
        if match["json"] or match["data"]:
            text, end = _embedded(source, end)
            if match["json"]:
                yield text


def is_gbnf(source: str) -> bool:
    """Whether a grammar is written in GBNF and not in Lark: by its rules' `::=`, outside of texts and comments."""
    return any(match["gbnf"] for match in _GBNF.finditer(source))


_GBNF = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|(?P<gbnf>::=)')


def _from_gbnf(source: str) -> str:
    try:
        return any_to_lark(source)
    except RecursionError:
        raise InvalidRequest("the GBNF grammar is nested too deep") from None
    # The converter raises errors of its own and, for grammars it did not expect, others.
    except Exception as error:
        raise InvalidRequest(f"the GBNF grammar cannot be read: {error}") from error


def _embedded(source: str, start: int) -> tuple[str, int]:
    """The JSON text that begins at `start`, and where it ends."""
    try:
        _, end = json.JSONDecoder().raw_decode(source, start)
    except (ValueError, RecursionError) as error:
        line = source.count("\n", 0, start) + 1
        raise InvalidRequest(f"the grammar has no readable JSON at line {line}: {error}") from error
    return source[start:end], end
