"""What a model's calls must look like, as a grammar that its own parser reads."""

import json
import re
from collections.abc import Sequence

from forebay.api.tools import FunctionDefinition, Tool
from forebay.engine.request import Grammar
from forebay.prompting.tool_family import ToolFamily
from forebay.replica.dialects.lark import TokenId, expression, literal, marker, pattern

MAX_CALLS = 8
"""Of one answer that a grammar holds to calls: a small model would go on calling until its tokens run out."""

_ANY_TEXT = "/(?s:.*)/"
_FURTHER = f"{{0,{MAX_CALLS - 1}}}"
_NO_ARGUMENTS = '"{}"'
_ANY_ARGUMENTS = '%json {"type":"object"}'


class CallGrammar:
    """Writes grammars for calls in a family's form.

    `many` allows further calls after the first, `MAX_CALLS` in all. A lax grammar holds only strict tools' arguments to
    their schema.
    """

    def __init__(self, family: ToolFamily, token_id: TokenId) -> None:
        self._family = family
        self._token_id = token_id

    def calls(self, tools: Sequence[Tool], *, many: bool) -> Grammar:
        """Calls, and nothing else."""
        return _grammar("start: calls", *self._calls(tools, many=many))

    def calls_or(self, tools: Sequence[Tool], output: Grammar, *, many: bool) -> Grammar:
        """Calls, lax, or what `output` matches. Their marker tells them apart, so that it has to stand there."""
        return _grammar(
            "start: calls | output",
            f"output: {expression(output)}",
            *self._calls(tools, many=many, marked=True, lax=True),
        )

    def text_and_calls(self, tools: Sequence[Tool], *, many: bool) -> Grammar:
        """Any text, then calls or none, lax."""
        form = self._family.form
        if form.bare:
            # A brace at the beginning is where a call without its tag begins.
            return _grammar(
                "start: calls | text", f"text: {pattern('([^{](?s:.*))?')}", *self._calls(tools, many=many, lax=True)
            )
        if self._token_id(form.opening) is not None:
            return _grammar(f"start: {_ANY_TEXT} calls?", *self._calls(tools, many=many, lax=True))
        return _grammar(
            f"start: to_call {self._unopened()}{f' more{_FURTHER}' if many else ''} | text",
            f"to_call[lazy]: {pattern('(?s:.*)' + re.escape(form.opening))}",
            f"more: {literal(self._family.separator)} marked",
            f"text: {_ANY_TEXT}",
            *self._calls(tools, many=many, lax=True),
        )

    def _calls(self, tools: Sequence[Tool], *, many: bool, marked: bool = False, lax: bool = False) -> list[str]:
        form, separator = self._family.form, literal(self._family.separator)
        opening = marker(form.opening, self._token_id)
        first = "marked" if marked or not form.bare else f"{opening}? call"
        following = "call" if form.bare else "marked"
        return [
            f"calls: {first}" + (f" ({separator} {following}){_FURTHER}" if many else ""),
            f"marked: {opening} {self._unopened()}",
            "call: " + " | ".join(f"call_{index}" for index, _ in enumerate(tools)),
            *(line for index, tool in enumerate(tools) for line in self._call(index, tool.function, lax=lax)),
        ]

    def _unopened(self) -> str:
        """A call after its opening marker."""
        form, space = self._family.form, self._family.inner_space
        spaced = f"{literal(space)} call {literal(space)}" if space else "call"
        return f"{spaced} {marker(form.closing, self._token_id)}" if form.closing else spaced

    def _call(self, index: int, function: FunctionDefinition, *, lax: bool) -> list[str]:
        """The rule `call_<index>`. The compiler's errors quote it and two lines before it, and are cut short: the
        comments see to it that they name the tool.
        """
        head = f'{{"name": "{function.name}", "{self._family.arguments_key}": '
        schema = arguments_schema(function)
        if lax and not function.strict:
            arguments = _ANY_ARGUMENTS
        else:
            arguments = _NO_ARGUMENTS if schema is None else f"%json {schema}"
        return ["//", f"// the function {function.name}", f'call_{index}: {literal(head)} {arguments} "}}"']


def arguments_schema(function: FunctionDefinition) -> str | None:
    """The JSON text of the schema that a call's arguments have to match; None for a function that takes none."""
    schema = function.parameters
    if schema is None:
        return None
    return json.dumps(schema if {"type", "$ref"} & schema.keys() else {"type": "object", **schema})


def _grammar(*lines: str) -> Grammar:
    return Grammar("lark", "\n".join(lines) + "\n", param="tools")
