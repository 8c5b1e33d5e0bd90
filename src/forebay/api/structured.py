"""What an answer's text must match."""

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


class StructuredOutputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """vLLM's `structured_outputs`: exactly one of them. `grammar` is llguidance's Lark dialect or GBNF."""

    json: dict[str, Any] | str | None = None
    regex: str | None = None
    choice: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    grammar: str | None = None
    json_object: bool | None = None

    def __post_init__(self) -> None:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        given = [name for name, value in values.items() if value is not None and value is not False]
        if len(given) != 1:
            raise FieldError(
                given[1] if given else "json",
                f"send exactly one of {', '.join(self.__struct_fields__)}, not {' and '.join(given) or 'none'}.",
            )
