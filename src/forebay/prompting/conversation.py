"""A request's messages and tools, as chat templates are given them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from forebay.api.chat import ChatMessage
from forebay.api.tools import FunctionDefinition, Tool

_INSTRUCTION = """\
You can call functions to help the user. The functions that you can call are described by JSON between <tools> and \
</tools>:
<tools>
{tools}
</tools>
To call a function, write its name and arguments as JSON between <tool_call> and </tool_call>; write one such block \
for each call:
<tool_call>
{{"name": <name of the function>, "arguments": <object of its arguments>}}
</tool_call>
Call only functions that are described, with all of their required arguments. What they return comes between \
<tool_response> and </tool_response>. If no function helps, answer the user without a call."""


def tools_for_template(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """In OpenAI's form, each with a description and a schema, for templates that look into them."""
    return [{"type": "function", "function": _function(tool.function)} for tool in tools]


def taught_messages(messages: Sequence[ChatMessage], *, one_call_each: bool = False) -> list[dict[str, Any]]:
    """For a template that knows tools: calls' arguments are objects, which it writes in its own way.

    With `one_call_each` calls that were made together are told one after the other, each with what came of it.
    """
    plain = [_message(message) for message in messages]
    return list(_apart(plain)) if one_call_each else plain


def described_messages(messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """For a template that knows no tools: they are described in a system message, and earlier calls and what came of
    them are written into the contents, in Hermes' form.
    """
    plain = list(_without_tools(messages))
    if not tools:
        return plain
    described = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools_for_template(tools))
    instruction = _INSTRUCTION.format(tools=described)
    if plain and plain[0]["role"] == "system":
        first, *plain = plain
        return [{**first, "content": f"{first['content']}\n\n{instruction}".lstrip()}, *plain]
    return [{"role": "system", "content": instruction}, *plain]


def _function(function: FunctionDefinition) -> dict[str, Any]:
    return {
        "name": function.name,
        "description": function.description or "",
        "parameters": function.parameters or {"type": "object", "properties": {}},
    }


def _message(message: ChatMessage) -> dict[str, Any]:
    plain = message.for_template()
    if message.reasoning_content is not None:
        plain["reasoning_content"] = message.reasoning_content
    for call in plain.get("tool_calls", ()):
        call["function"]["arguments"] = _arguments(call["function"]["arguments"])
    return plain


def _apart(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    results: dict[str | None, list[dict[str, Any]]] = {}
    calls: list[dict[str, Any]] = []
    for message in messages:
        if calls and message["role"] == "tool":
            results.setdefault(message.get("tool_call_id"), []).append(message)
            continue
        yield from _one_by_one(calls, results)
        calls = message.pop("tool_calls", [])
        if calls:
            first, *others = calls
            calls = [{**message, "tool_calls": [first]}]
            calls += [{"role": "assistant", "content": "", "tool_calls": [other]} for other in others]
        else:
            yield message
    yield from _one_by_one(calls, results)


def _one_by_one(
    calls: Sequence[dict[str, Any]], results: dict[str | None, list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Messages of one call, each followed by its results; those of no call come last. Leaves `results` empty."""
    for message in calls:
        yield message
        yield from results.pop(message["tool_calls"][0]["id"], ())
    for unasked in results.values():
        yield from unasked
    results.clear()


def _arguments(text: str) -> Any:
    """The object that `text` says; the text itself where it says none."""
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return said if isinstance(said, dict) else text


def _without_tools(messages: Sequence[ChatMessage]) -> Iterator[dict[str, Any]]:
    responses: list[str] = []
    for message in messages:
        if message.role == "tool":
            responses.append(f"<tool_response>\n{message.text}\n</tool_response>")
            continue
        if responses:
            yield {"role": "user", "content": "\n".join(responses)}
            responses = []
        yield _with_calls_written(_message(message))
    if responses:
        yield {"role": "user", "content": "\n".join(responses)}


def _with_calls_written(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.pop("tool_calls", ())
    functions = [{"name": call["function"]["name"], "arguments": call["function"]["arguments"]} for call in calls]
    blocks = [f"<tool_call>\n{json.dumps(function, ensure_ascii=False)}\n</tool_call>" for function in functions]
    message["content"] = "\n".join(filter(None, [message["content"], *blocks]))
    return message
