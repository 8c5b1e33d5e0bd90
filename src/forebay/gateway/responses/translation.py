"""`POST /v1/responses`, there and back."""

import msgspec

from forebay.api.decoding import decode
from forebay.api.responses import ResponsesRequest
from forebay.core.errors import ForebayError
from forebay.gateway.chat_answer import read_answer
from forebay.gateway.chat_body import chat_body
from forebay.gateway.field_names import FieldName, FieldNames
from forebay.gateway.responses.answer import ResponseBuilder
from forebay.gateway.responses.request import chat_request
from forebay.gateway.responses.stream import ResponseStream

FIELD_NAMES = FieldNames(
    [
        FieldName(r"response_format\.json_schema", "text.format"),
        FieldName(r"response_format", "text.format"),
        FieldName(r"tools\[(\d+)\]\.function", r"tools[\1]"),
        FieldName(r"tool_choice\.function", "tool_choice"),
        FieldName(r"max_(completion_)?tokens", "max_output_tokens"),
        FieldName(r"reasoning_effort", "reasoning.effort"),
        # Not every item is a message: the place is not the same.
        FieldName(r"messages(\[\d+\][][\w.]*)?", "input"),
    ],
    limit="max_output_tokens",
)


class ResponsesTranslation:
    """One request. `key` is what the ids of its answer are made of; `created_at` is in Unix seconds.

    Raises what `api.decoding.decode` raises.
    """

    def __init__(self, body: bytes, *, key: str, created_at: int) -> None:
        asked = decode(body, ResponsesRequest)
        self._builder = ResponseBuilder(asked, key=key, created_at=created_at)
        self._body = chat_body(lambda: chat_request(asked), FIELD_NAMES)

    @property
    def body(self) -> bytes:
        return self._body

    def whole(self, answer: bytes) -> bytes:
        return msgspec.json.encode(self._builder.whole(read_answer(answer)))

    def stream(self) -> ResponseStream:
        return ResponseStream(self._builder)

    def error(self, error: ForebayError) -> ForebayError:
        return FIELD_NAMES.error(error)
