"""What a model's calls are held to: its family's own form, read back by its own parser."""

from typing import Any

import pytest

from forebay.modelfiles.model import ModelFiles
from forebay.replica.dialects.call_grammar import MAX_CALLS
from forebay.replica.dialects.pieces import ArgumentsPiece, TextPiece, ToolCallPiece
from tests.support.chat_dialects import (
    CALL_MARKS,
    HERMES,
    LLAMA,
    PLAIN,
    PYTHON_TAG,
    matches,
    model_with,
    plan,
    tool,
)
from tests.unit.test_replica_dialects_calls import hermes, llama, read

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"city": {"enum": ["Oslo", "Rome"]}},
}
OSLO = '{"city": "Oslo"}'
TOOLS = [tool("weather", CITY), tool("now")]
STRICT = [tool("weather", CITY, strict=True), tool("now", {"properties": {"zone": {"type": "string"}}})]
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
NOW = {"type": "function", "function": {"name": "now"}}
HERMES_MODELS = {
    "tokens": model_with(HERMES, tokens=CALL_MARKS),
    "special": model_with(HERMES, special=CALL_MARKS),
    "text": model_with(HERMES),
    "untaught": model_with(PLAIN),
}
LLAMA_MODEL = model_with(LLAMA, special=[PYTHON_TAG])


def holds(model: ModelFiles, text: str, **fields: object) -> bool:
    """Whether the plan's grammar takes `text`."""
    planned = plan(model, **fields)
    assert planned.grammar is not None
    return matches(model, planned.grammar, text)


@pytest.fixture(params=HERMES_MODELS)
def hermes_model(request: pytest.FixtureRequest) -> ModelFiles:
    return HERMES_MODELS[request.param]


HERMES_FORCED = [
    (hermes("weather", OSLO), True),
    (hermes("now", "{}"), True),
    (hermes("now", "{}") + "\n" + hermes("weather", OSLO), True),
    (hermes("now", '{"a": 1}'), False),
    (hermes("weather", "{}"), False),
    (hermes("weather", '{"city": "Bonn"}'), False),
    (hermes("other", "{}"), False),
    ("Hello", False),
    ("so " + hermes("now", "{}"), False),
    ("", False),
]


@pytest.mark.parametrize(("text", "right"), HERMES_FORCED)
def test_required_takes_one_call_or_more(hermes_model: ModelFiles, text: str, right: bool) -> None:
    assert holds(hermes_model, text, tools=TOOLS, tool_choice="required") is right


def test_named_takes_exactly_that_call(hermes_model: ModelFiles) -> None:
    assert holds(hermes_model, hermes("now", "{}"), tools=TOOLS, tool_choice=NOW)
    assert not holds(hermes_model, hermes("weather", OSLO), tools=TOOLS, tool_choice=NOW)
    assert not holds(hermes_model, hermes("now", "{}") + "\n" + hermes("now", "{}"), tools=TOOLS, tool_choice=NOW)


def test_enforced_calls_come_to_an_end(hermes_model: ModelFiles) -> None:
    calls = [hermes("now", "{}")] * MAX_CALLS
    assert holds(hermes_model, "\n".join(calls), tools=TOOLS, tool_choice="required")
    assert not holds(hermes_model, "\n".join([*calls, calls[0]]), tools=TOOLS, tool_choice="required")


def test_without_parallel_calls_there_is_one(hermes_model: ModelFiles) -> None:
    fields: dict[str, object] = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    assert holds(hermes_model, hermes("weather", OSLO), **fields)
    assert not holds(hermes_model, hermes("now", "{}") + "\n" + hermes("weather", OSLO), **fields)


@pytest.mark.parametrize(
    ("text", "right"), [(OSLO, True), (hermes("now", "{}"), True), ("Oslo", False), ('{"city": 3}', False)]
)
def test_auto_with_a_format_takes_calls_or_the_format(hermes_model: ModelFiles, text: str, right: bool) -> None:
    assert holds(hermes_model, text, tools=TOOLS, response_format=FORMAT) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Hello <b> there {}", True),
        ("", True),
        ("So: " + hermes("weather", OSLO), True),
        (hermes("weather", OSLO) + "\n" + hermes("now", '{"zone": "UTC"}'), True),
        # Not strict: any object will do.
        (hermes("now", '{"zone": 3}'), True),
        (hermes("weather", "{}"), False),
        ("So: <tool_call> or not", False),
    ],
)
def test_auto_with_a_strict_tool_holds_a_call_that_was_begun(hermes_model: ModelFiles, text: str, right: bool) -> None:
    assert holds(hermes_model, text, tools=STRICT) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (llama("weather", OSLO), True),
        (PYTHON_TAG + llama("now", "{}"), True),
        (llama("now", "{}") + "; " + llama("weather", OSLO), True),
        (llama("now", '{"a": 1}'), False),
        ("Hello", False),
    ],
)
def test_required_in_llamas_form(text: str, right: bool) -> None:
    assert holds(LLAMA_MODEL, text, tools=TOOLS, tool_choice="required") is right


@pytest.mark.parametrize(
    ("text", "right"),
    [(OSLO, True), (PYTHON_TAG + llama("now", "{}"), True), (llama("now", "{}"), False), ("x", False)],
)
def test_llamas_calls_carry_their_tag_where_json_may_be_the_answer(text: str, right: bool) -> None:
    assert holds(LLAMA_MODEL, text, tools=TOOLS, response_format=FORMAT) is right


def test_json_of_the_format_is_no_call_even_if_it_looks_like_one() -> None:
    planned = plan(LLAMA_MODEL, tools=TOOLS, response_format={"type": "json_object"})
    assert read(planned.parser(""), llama("now", "{}")) == [TextPiece(llama("now", "{}"))]
    called = [ToolCallPiece(0, "now"), ArgumentsPiece(0, "{}")]
    assert read(planned.parser(""), PYTHON_TAG + llama("now", "{}")) == called


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Hello {}", True),
        ("", True),
        (llama("weather", OSLO), True),
        (PYTHON_TAG + llama("weather", OSLO), True),
        (llama("weather", "{}"), False),
        (PYTHON_TAG + "print()", False),
    ],
)
def test_auto_with_a_strict_tool_in_llamas_form(text: str, right: bool) -> None:
    assert holds(LLAMA_MODEL, text, tools=STRICT) is right


@pytest.mark.parametrize("choice", ["required", NOW])
def test_what_is_forced_is_read_back(choice: object) -> None:
    for model, text in ((HERMES_MODELS["tokens"], hermes("now", "{}")), (LLAMA_MODEL, llama("now", "{}"))):
        planned = plan(model, tools=TOOLS, tool_choice=choice)
        assert planned.grammar is not None
        assert matches(model, planned.grammar, text)
        assert read(planned.parser(""), text) == [ToolCallPiece(0, "now"), ArgumentsPiece(0, "{}")]


def test_as_many_tools_as_a_request_may_have_can_be_forced() -> None:
    tools = [tool(f"tool_{index}", CITY) for index in range(128)]
    model = HERMES_MODELS["tokens"]
    assert holds(model, hermes("tool_127", OSLO), tools=tools, tool_choice="required")
    assert not holds(model, hermes("tool_128", OSLO), tools=tools, tool_choice="required")
