"""`POST /v1/messages`, there and back."""

import msgspec

from forebay.api.decoding import decode
from forebay.api.messages import MessagesRequest
from forebay.core.errors import ForebayError
from forebay.gateway.chat_answer import read_answer
from forebay.gateway.chat_body import chat_body
from forebay.gateway.field_names import FieldName, FieldNames
from forebay.gateway.messages.answer import MessageBuilder
from forebay.gateway.messages.request import chat_request, require_no_extensions
from forebay.gateway.messages.stream import MessageStream

FIELD_NAMES = FieldNames(
    [
        FieldName(r"response_format\.json_schema", "output_config.format"),
        FieldName(r"response_format", "output_config.format"),
        FieldName(r"tools\[(\d+)\]\.function\.parameters", r"tools[\1].input_schema"),
        FieldName(r"tools\[(\d+)\]\.function", r"tools[\1]"),
        FieldName(r"tool_choice\.function", "tool_choice"),
        FieldName(r"max_completion_tokens", "max_tokens"),
        FieldName(r"stop", "stop_sequences"),
        FieldName(r"reasoning_effort", "output_config.effort"),
        FieldName(r"chat_template_kwargs", "thinking"),
        FieldName(r"(continue_final_message|add_generation_prompt)", "messages"),
        # The system prompt is a message there and results are several: the place is not the same.
        FieldName(r"messages(\[\d+\][][\w.]*)?", "messages"),
    ]
)


class MessagesTranslation:
    """One request. `key` is what the ids of its answer are made of; `own_pool` as in `chat_request`;
    `extensions`: whether its pool is known to understand vLLM's extensions of chat completions.

    Raises what `api.decoding.decode` raises.
    """

    def __init__(self, body: bytes, *, key: str, own_pool: bool, extensions: bool) -> None:
        asked = decode(body, MessagesRequest)
        self._builder = MessageBuilder(asked, key=key)
        if not extensions:
            require_no_extensions(asked)
        self._body = chat_body(lambda: chat_request(asked, own_pool=own_pool), FIELD_NAMES)

    @property
    def body(self) -> bytes:
        return self._body

    def whole(self, answer: bytes) -> bytes:
        return msgspec.json.encode(self._builder.whole(read_answer(answer)))

    def stream(self) -> MessageStream:
        return MessageStream(self._builder)

    def error(self, error: ForebayError) -> ForebayError:
        return FIELD_NAMES.error(error)
