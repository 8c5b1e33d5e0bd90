"""What a client is told about a grammar that the library does not take."""

import re
import time
from collections.abc import Iterable

from llguidance import LLMatcher, LLParserLimits

from forebay.engine.grammar.lark import schemas_in
from forebay.engine.grammar.matcher import reason
from forebay.engine.grammar.schema_blame import LONGEST_SEARCH_S, blame
from forebay.engine.grammar.vocabulary import Vocabulary
from forebay.engine.request import Grammar

_SCHEMA_FAULT = re.compile(r"failed to compile JSON schema: .*?(?=\n +\d+ \||$)", re.DOTALL)
"""Up to the lines of the grammar that the library quotes after it."""


def explained(grammar: Grammar, failed: LLMatcher, vocabulary: Vocabulary, limits: LLParserLimits) -> str:
    """A sentence; where it is about a JSON schema, with the place in it. `failed` is what the library made of it."""
    said = reason(failed)
    if grammar.kind == "json_schema":
        blamed = _blamed([grammar.source], vocabulary, limits)
        return blamed or f"the grammar cannot be used: {said}"
    if grammar.kind == "lark" and _SCHEMA_FAULT.search(said):
        blamed = _blamed(schemas_in(grammar.source), vocabulary, limits)
        if blamed is not None:
            said = _SCHEMA_FAULT.sub(lambda _: blamed, said, count=1)
    return f"the grammar cannot be used: {said}"


def _blamed(schemas: Iterable[str], vocabulary: Vocabulary, limits: LLParserLimits) -> str | None:
    """What is wrong with the first of `schemas` that fails."""
    deadline = time.monotonic() + LONGEST_SEARCH_S

    def fault(source: str) -> str:
        return LLMatcher.validate_grammar(source, vocabulary.library, limits=limits)

    for schema in schemas:
        found = blame(schema, fault, deadline)
        if found is not None:
            return found
        if time.monotonic() > deadline:
            break
    return None
