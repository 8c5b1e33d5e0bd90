"""Every text that the grammar of a JSON schema lets end is an instance of that schema."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.compiler import GrammarCompiler
from forebay.engine.request import Grammar
from forebay.modelfiles.model import ModelFiles
from tests.support.grammar_walk import Walker, matches
from tests.support.json_schemas import ACCEPTED, REFUSED, Schema
from tests.support.schema_oracle import what_is_wrong

WALKS = 3
"""Of each schema."""
RANDOM = 100
"""Schemas made by hypothesis-jsonschema."""
FEWEST_FINISHED = 0.85
"""Of the walks of a keyword; the others wander through a text without end until they are stopped."""


@pytest.fixture(scope="module")
def compiler(smollm: ModelFiles) -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(smollm.tokenizer, smollm.tokenizer.vocab_size, smollm.eos_token_ids)
    yield made
    made.close()


@pytest.fixture(scope="module")
def walker(smollm: ModelFiles) -> Walker:
    return Walker(smollm.tokenizer, smollm.eos_token_ids)


def wrong_texts(schema: Schema, compiler: GrammarCompiler, walker: Walker, walks: int) -> tuple[list[str], int]:
    """What is wrong with finished texts, and how many finished."""
    compiled = compiler.compile(Grammar("json_schema", json.dumps(schema)))
    texts = [text for seed in range(walks) if (text := walker.walk(compiled, seed)) is not None]
    found = [(text.decode(), what_is_wrong(schema, text.decode())) for text in texts]
    return [f"{text} {json.dumps(schema)[:300]}: {wrong}" for text, wrong in found if wrong], len(texts)


@pytest.mark.parametrize("keyword", ACCEPTED)
def test_finished_texts_are_instances(keyword: str, compiler: GrammarCompiler, walker: Walker) -> None:
    finished = 0
    for schema in ACCEPTED[keyword]:
        wrong, ended = wrong_texts(schema, compiler, walker, WALKS)
        assert not wrong
        finished += ended
    assert finished >= FEWEST_FINISHED * WALKS * len(ACCEPTED[keyword])


def test_there_are_two_hundred_schemas() -> None:
    assert sum(map(len, ACCEPTED.values())) >= 200


@pytest.mark.parametrize(("schema", "words"), REFUSED)
def test_what_is_not_enforced_is_refused_by_name(schema: Schema, words: str, compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidRequest) as refused:
        compiler.compile(Grammar("json_schema", json.dumps(schema)))
    assert words in refused.value.detail


@pytest.mark.parametrize("keyword", ["enum", "const"])
def test_every_listed_value_can_be_written(keyword: str, compiler: GrammarCompiler, walker: Walker) -> None:
    """A grammar that allowed too little would pass every other test."""
    for schema in ACCEPTED[keyword]:
        assert isinstance(schema, dict)
        compiled = compiler.compile(Grammar("json_schema", json.dumps(schema)))
        for value in [*schema.get("enum", [])[:20], *([schema["const"]] if "const" in schema else [])]:
            text = json.dumps(value, ensure_ascii=False)
            if what_is_wrong(schema, text) is None and "<|" not in text:
                assert matches(compiled, walker, text), (schema, text)


COUNT = {"type": "integer", "minimum": 0, "maximum": 4}
BOUND = {"enum": [-2, 0, 1, 2.5, 3, 10]}
LEAF_KEYWORDS: dict[str, Schema] = {
    "type": {"enum": ["object", "array", "string", "integer", "number", "boolean", "null", ["string", "array"]]},
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), COUNT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "multipleOf"), BOUND),
    "enum": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": [0, 1, "a", None, True, [], {}]}},
    "const": {"enum": [0, 1, "a", None, False, {"a": 1}]},
    "required": {"enum": [["a"], ["b"], ["a", "c"], []]},
    "pattern": {"enum": ["^a", "b$", "^[ab]*$"]},
    "format": {"enum": ["date", "uuid", "ipv4", "time"]},
    "$ref": {"enum": ["#", "#/$defs/a"]},
}


def _as_pairs(keywords: dict[str, Schema]) -> Schema:
    """What describes schemas as lists of pairs; hypothesis-jsonschema cannot make objects with this hypothesis."""
    pairs = [
        {"type": "array", "items": [{"const": name}, value], "minItems": 2, "maxItems": 2}
        for name, value in keywords.items()
    ]
    return {"type": "array", "maxItems": 3, "items": {"anyOf": pairs}}


LEAVES = from_schema(_as_pairs(LEAF_KEYWORDS)).map(dict)


def _wider(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    one = st.one_of(st.booleans(), inner)
    several = st.lists(one, min_size=1, max_size=3)
    around = {
        **dict.fromkeys(("items", "additionalProperties"), one),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        "properties": st.dictionaries(st.sampled_from(["a", "b", "c"]), one, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), one, max_size=2),
    }
    return st.builds(lambda leaf, more: {**leaf, **more}, LEAVES, st.fixed_dictionaries({}, optional=around))


SCHEMAS = st.builds(lambda schema, inner: {**schema, "$defs": {"a": inner}}, st.recursive(LEAVES, _wider), LEAVES)


@settings(max_examples=RANDOM, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS)
def test_random_schemas(schema: dict[str, Any], compiler: GrammarCompiler, walker: Walker) -> None:
    """Any keywords beside any others, as no one would write them; of what is refused, the place is named."""
    try:
        wrong, _ = wrong_texts(schema, compiler, walker, 2)
    except InvalidRequest as refused:
        assert re.search(r" \(at #.*\)$", refused.detail), refused.detail
        return
    assert not wrong
