"""What a request says of its output's form becomes the engine's grammar."""

import json

import pytest

from forebay.core.errors import InvalidRequest
from forebay.engine.request import Grammar
from forebay.replica.structured import output_grammar
from tests.support.chat_dialects import request

SCHEMA = {"type": "object", "properties": {"größe": {"type": "integer", "maximum": 10**30}}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, Grammar("json_object")),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "any"}}}, Grammar("json_object")),
        ({"structured_outputs": {"json_object": True}}, Grammar("json_object")),
        ({"structured_outputs": {"regex": "[a-z]+"}}, Grammar("regex", "[a-z]+", param="structured_outputs.regex")),
        (
            {"structured_outputs": {"grammar": 'start: "a"'}},
            Grammar("lark", 'start: "a"', param="structured_outputs.grammar"),
        ),
        (
            {"structured_outputs": {"json": '{"type": "null"}'}},
            Grammar("json_schema", '{"type": "null"}', param="structured_outputs.json"),
        ),
    ],
)
def test_each_way_of_asking(fields: dict[str, object], expected: Grammar | None) -> None:
    assert output_grammar(request(**fields)) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "size", "schema": SCHEMA}}},
        {"structured_outputs": {"json": SCHEMA}},
    ],
)
def test_a_schema_is_kept_as_it_is(fields: dict[str, object]) -> None:
    # Integers of any size are JSON; the wire's own writer takes 64 bits only.
    grammar = output_grammar(request(**fields))
    assert grammar is not None
    assert grammar.kind == "json_schema"
    assert json.loads(grammar.source) == SCHEMA


def test_choices_are_a_list_of_texts() -> None:
    grammar = output_grammar(request(structured_outputs={"choice": ["yes", 'n"ö']}))
    assert grammar is not None
    assert grammar.kind == "choice"
    assert json.loads(grammar.source) == ["yes", 'n"ö']


@pytest.mark.parametrize("text", ["{", "[]", "3", "[" * 100_000, ""])
def test_a_schema_given_as_text_must_be_an_object(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        output_grammar(request(structured_outputs={"json": text}))
    assert caught.value.param == "structured_outputs.json"
