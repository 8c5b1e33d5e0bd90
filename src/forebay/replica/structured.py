"""From what a request says of its output's form to the engine's grammar."""

import json

import msgspec

from forebay.api.generation import GenerationFields
from forebay.api.structured import ResponseFormat, StructuredOutputs
from forebay.core.errors import InvalidRequest
from forebay.engine.request import Grammar


def output_grammar(fields: GenerationFields) -> Grammar | None:
    """What the whole output must match by `response_format` or `structured_outputs`; None where it is free.

    Raises InvalidRequest where `structured_outputs.json` is a text that is no JSON object. Whether the schema, pattern
    or grammar itself can be run is found out when the engine compiles it.
    """
    if fields.structured_outputs is not None:
        return _of_structured_outputs(fields.structured_outputs)
    if fields.response_format is not None:
        return _of_response_format(fields.response_format)
    return None


def _of_response_format(asked: ResponseFormat) -> Grammar | None:
    if asked.type == "text":
        return None
    schema = asked.json_schema.schema if asked.type == "json_schema" and asked.json_schema is not None else None
    if schema is None:
        return Grammar("json_object")
    return Grammar("json_schema", _text(schema), param="response_format.json_schema.schema")


def _of_structured_outputs(asked: StructuredOutputs) -> Grammar:
    if asked.json is not None:
        return Grammar("json_schema", _schema_text(asked.json), param="structured_outputs.json")
    if asked.regex is not None:
        return Grammar("regex", asked.regex, param="structured_outputs.regex")
    if asked.choice is not None:
        return Grammar("choice", _text(asked.choice), param="structured_outputs.choice")
    if asked.grammar is not None:
        return Grammar("lark", asked.grammar, param="structured_outputs.grammar")
    return Grammar("json_object")


def _schema_text(schema: dict[str, object] | str) -> str:
    if not isinstance(schema, str):
        return _text(schema)
    param = "structured_outputs.json"
    try:
        decoded = msgspec.json.decode(schema)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{param}: the text is not JSON: {error}.", param=param) from None
    if not isinstance(decoded, dict):
        raise InvalidRequest(f"{param}: a JSON schema is an object; send it as one or as its text.", param=param)
    return schema


def _text(value: object) -> str:
    # msgspec refuses to write integers of more than 64 bits.
    return json.dumps(value)
