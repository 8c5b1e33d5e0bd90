"""What an answer's text must match."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from forebay.api.decoding import FieldError


class JsonSchemaFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """OpenAI's `json_schema`. The schema is always kept to, `strict` or not; without one, any JSON object is."""

    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """OpenAI's `response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None

    def __post_init__(self) -> None:
        if self.type == "json_schema" and self.json_schema is None:
            raise FieldError("json_schema", "this field is required with the type 'json_schema'.")


STRUCTURES = ("json", "regex", "choice", "grammar", "json_object")
STRUCTURES_REFUSED: Mapping[str, str] = {
    "whitespace_pattern": "JSON is always written in one line, with a blank after each comma and colon; leave it out",
    "structural_tag": "use `tools`, or write a `grammar`",
    "disable_additional_properties": "say `additionalProperties: false` in the schema itself",
}
"""Fields of vLLM's that would change the output and are not run → what to do instead."""


class StructuredOutputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """vLLM's `structured_outputs`: exactly one of `STRUCTURES`. `grammar` is llguidance's Lark dialect or GBNF.

    The `disable_…` are wishes to vLLM's backends that hold here anyway, but for the one that is refused.
    """

    json: dict[str, Any] | str | None = None
    regex: str | None = None
    choice: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    grammar: str | None = None
    json_object: bool | None = None

    disable_fallback: bool | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None
    whitespace_pattern: str | None = None
    structural_tag: Any = None

    def __post_init__(self) -> None:
        for name, advice in STRUCTURES_REFUSED.items():
            if getattr(self, name) not in (None, False):
                raise FieldError(name, f"unsupported here: {advice}.")
        values = {name: getattr(self, name) for name in STRUCTURES}
        given = [name for name, value in values.items() if value is not None and value is not False]
        if len(given) != 1:
            raise FieldError(
                given[1] if given else "json",
                f"send exactly one of {', '.join(STRUCTURES)}, not {' and '.join(given) or 'none'}.",
            )
