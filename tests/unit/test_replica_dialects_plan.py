"""Messages and tools reach the template in its own form, and what cannot be done is refused."""

import json
from typing import Any

import pytest

from forebay.core.errors import InvalidRequest
from forebay.modelfiles.model import ModelFiles
from forebay.prompting.tool_family import HERMES as HERMES_FAMILY
from forebay.prompting.tool_family import LLAMA as LLAMA_FAMILY
from forebay.prompting.tool_family import ToolFamily, taught_family
from forebay.replica.dialects.call_parser import CallParser
from forebay.replica.dialects.pieces import PlainParser
from tests.support.chat_dialects import CALL_MARKS, HERMES, LLAMA, PLAIN, PYTHON_TAG, model_with, plan, prompt, tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [tool("weather", CITY, description="Tells the weather.", strict=True), tool("now")]
TOLD = [
    tool("weather", CITY, description="Tells the weather."),
    tool("now", {"type": "object", "properties": {}}, description=""),
]
USER = {"role": "user", "content": "Oslo?"}


def asked_call(name: str, arguments: str, id_: str = "call_1") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


HISTORY: list[dict[str, Any]] = [
    USER,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [asked_call("weather", '{"city": "Oslo"}'), asked_call("now", "{oops", "call_2")],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "noon"}]},
    {"role": "assistant", "content": "It rains.", "reasoning_content": "Rain, then."},
    {"role": "user", "content": "Thanks"},
]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (model_with(HERMES), HERMES_FAMILY),
        (model_with(HERMES, tokens=CALL_MARKS), HERMES_FAMILY),
        (model_with(LLAMA, special=[PYTHON_TAG]), LLAMA_FAMILY),
        (model_with(PLAIN), None),
        (model_with(PLAIN, tokens=CALL_MARKS), None),
        (model_with(PLAIN, special=[PYTHON_TAG]), None),
        (model_with(PLAIN + "{% if tools %}{{ tools | tojson }}{% endif %}"), None),
        (model_with(HERMES + "{# <function= #}"), None),
        (model_with(None), None),
    ],
)
def test_the_family_is_found_in_template_and_vocabulary(model: ModelFiles, expected: ToolFamily | None) -> None:
    assert taught_family(model) is expected


def test_a_template_that_knows_tools_is_given_them_and_nothing_is_added() -> None:
    model = model_with(HERMES)
    planned = plan(model, messages=[USER], tools=TOOLS)
    assert planned.chat.variables == {"tools": TOLD}
    assert planned.chat.messages == [USER]
    assert json.dumps(TOLD[0]) in prompt(model, planned)


def test_earlier_calls_reach_such_a_template_as_objects() -> None:
    messages = plan(model_with(HERMES), messages=HISTORY).chat.messages
    calls = messages[1]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == [{"city": "Oslo"}, "{oops"]
    assert messages[1]["content"] == ""
    assert messages[2] == {"role": "tool", "tool_call_id": "call_1", "content": "rain"}
    assert messages[4]["reasoning_content"] == "Rain, then."
    text = prompt(model_with(HERMES), plan(model_with(HERMES), messages=HISTORY))
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>' in text


def test_llamas_template_is_told_one_call_after_the_other() -> None:
    model = model_with(LLAMA, special=[PYTHON_TAG])
    swapped = [*HISTORY[:2], HISTORY[3], HISTORY[2], *HISTORY[4:]]
    for history in (HISTORY, swapped):
        messages = plan(model, messages=history).chat.messages
        told = [(m["role"], [c["function"]["name"] for c in m.get("tool_calls", ())], m["content"]) for m in messages]
        assert told == [
            ("user", [], "Oslo?"),
            ("assistant", ["weather"], ""),
            ("tool", [], "rain"),
            ("assistant", ["now"], ""),
            ("tool", [], "noon"),
            ("assistant", [], "It rains."),
            ("user", [], "Thanks"),
        ]
        assert '{"name": "weather", "parameters": {"city": "Oslo"}}' in prompt(model, plan(model, messages=history))


def test_a_result_of_no_call_is_kept() -> None:
    odd = {"role": "tool", "tool_call_id": "call_9", "content": "hail"}
    messages = plan(model_with(LLAMA, special=[PYTHON_TAG]), messages=[*HISTORY[:3], odd]).chat.messages
    assert [message["content"] for message in messages] == ["Oslo?", "", "rain", "", "hail"]


def test_a_template_without_tools_gets_them_described_in_a_system_message() -> None:
    planned = plan(model_with(PLAIN), messages=[USER], tools=TOOLS)
    assert planned.chat.variables == {}
    system, user = planned.chat.messages
    assert user == USER
    assert system["role"] == "system"
    before, _, rest = system["content"].partition("<tools>\n{")
    described, _, after = rest.partition("\n</tools>")
    assert [json.loads(line) for line in ("{" + described).split("\n")] == TOLD
    assert before
    assert "<tool_call>" in after


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_description_follows_what_the_system_message_says(role: str) -> None:
    messages = [{"role": role, "content": "Be brief."}, USER]
    system, user = plan(model_with(PLAIN), messages=messages, tools=TOOLS).chat.messages
    assert user == USER
    assert system["role"] == "system"
    assert system["content"].startswith("Be brief.\n\n")
    assert "<tools>" in system["content"]


def test_a_template_without_tools_gets_earlier_calls_and_results_as_text() -> None:
    _, called, result, answer, thanks = plan(model_with(PLAIN), messages=HISTORY).chat.messages
    assert called == {
        "role": "assistant",
        "content": '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "now", "arguments": "{oops"}\n</tool_call>',
    }
    assert result == {
        "role": "user",
        "content": "<tool_response>\nrain\n</tool_response>\n<tool_response>\nnoon\n</tool_response>",
    }
    assert answer["content"] == "It rains."
    assert thanks["content"] == "Thanks"


def test_results_at_the_end_and_text_before_a_call_are_kept() -> None:
    messages = [USER, {**HISTORY[1], "content": "Let me see."}, HISTORY[2]]
    _, called, result = plan(model_with(PLAIN), messages=messages).chat.messages
    assert called["content"].startswith("Let me see.\n<tool_call>\n")
    assert result["content"] == "<tool_response>\nrain\n</tool_response>"


@pytest.mark.parametrize("model", [model_with(PLAIN), model_with(LLAMA, special=[PYTHON_TAG])])
def test_choice_none_shows_no_tools_and_reads_no_calls(model: ModelFiles) -> None:
    planned = plan(model, messages=[USER], tools=TOOLS, tool_choice="none", response_format={"type": "json_object"})
    assert planned.chat.messages == [USER]
    assert planned.chat.variables == {}
    assert isinstance(planned.parser(""), PlainParser)
    assert planned.grammar is not None
    assert planned.grammar.kind == "json_object"


@pytest.mark.parametrize("fields", [{}, {"tools": []}, {"tools": None, "tool_choice": None}])
def test_a_plain_chat_passes_through(fields: dict[str, object]) -> None:
    planned = plan(model_with(HERMES.replace("think", "")), **fields)
    assert isinstance(planned.parser(""), PlainParser)
    assert planned.grammar is None
    assert planned.skip_special_tokens is True


def test_auto_reads_calls_and_forces_nothing() -> None:
    planned = plan(model_with(LLAMA, special=[PYTHON_TAG]), tools=[tool("now")])
    assert isinstance(planned.parser(""), CallParser)
    assert planned.grammar is None
    assert planned.skip_special_tokens is False


def test_only_special_marks_keep_special_tokens_in_the_text() -> None:
    assert plan(model_with(PLAIN, tokens=CALL_MARKS), tools=TOOLS).skip_special_tokens is True
    assert plan(model_with(PLAIN, special=CALL_MARKS), tools=TOOLS).skip_special_tokens is False
    assert plan(model_with(PLAIN, special=CALL_MARKS)).skip_special_tokens is True


def test_effort_and_the_templates_own_variables() -> None:
    model = model_with(HERMES)
    assert plan(model, reasoning_effort="low").chat.variables == {"reasoning_effort": "low"}
    assert plan(model, reasoning_effort="none").chat.variables == {"reasoning_effort": "none", "enable_thinking": False}
    kwargs = {"enable_thinking": True, "style": "terse"}
    planned = plan(model, reasoning_effort="none", chat_template_kwargs=kwargs)
    assert planned.chat.variables == {"reasoning_effort": "none", **kwargs}


@pytest.mark.parametrize(
    "name", ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "self", "raise_exception"]
)
def test_variables_that_are_not_the_clients_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=name) as caught:
        plan(model_with(HERMES), chat_template_kwargs={name: "x"})
    assert caught.value.param == f"chat_template_kwargs.{name}"


def test_arguments_that_are_no_object_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"'list_it'.*'array'") as caught:
        plan(model_with(HERMES), tools=[tool("now"), tool("list_it", {"type": "array"})])
    assert caught.value.param == "tools[1].function.parameters"


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"not": {"type": "null"}}}},
    ],
)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "odd"}}, "auto"])
def test_a_schema_that_cannot_be_held_to_is_refused_by_the_name_of_its_tool(
    parameters: dict[str, object], choice: object
) -> None:
    odd = tool("odd", parameters, strict=choice == "auto")
    with pytest.raises(InvalidRequest, match="'odd'") as caught:
        plan(model_with(HERMES), tools=[tool("now"), odd], tool_choice=choice)
    assert caught.value.param == "tools[1].function.parameters"


def test_such_a_schema_is_no_fault_where_nothing_has_to_be_held_to_it() -> None:
    odd = tool("odd", {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}})
    assert plan(model_with(HERMES), tools=[odd]).grammar is None
    strict = plan(model_with(HERMES), tools=[odd, tool("now", strict=True)])
    assert strict.grammar is not None


def test_schemas_nested_beyond_all_sense_are_refused() -> None:
    schema: dict[str, object] = {}
    for _ in range(400):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(InvalidRequest, match="deep"):
        plan(model_with(HERMES), tools=[tool("deep", schema)], tool_choice="required")


def test_gbnf_cannot_be_joined_with_calls() -> None:
    with pytest.raises(InvalidRequest, match="GBNF") as caught:
        plan(model_with(HERMES), tools=TOOLS, structured_outputs={"grammar": 'root ::= "a"'})
    assert caught.value.param == "structured_outputs.grammar"
