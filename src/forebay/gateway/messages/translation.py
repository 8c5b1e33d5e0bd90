"""`POST /v1/messages`, there and back."""

import msgspec

from forebay.api.decoding import decode
from forebay.api.messages import MessagesRequest
from forebay.gateway.chat_answer import read_answer
from forebay.gateway.chat_body import chat_body
from forebay.gateway.messages.answer import MessageBuilder
from forebay.gateway.messages.request import chat_request
from forebay.gateway.messages.stream import MessageStream


class MessagesTranslation:
    """One request. `key` is what the ids of its answer are made of; `own_pool` as in `chat_request`.

    Raises what `api.decoding.decode` raises.
    """

    def __init__(self, body: bytes, *, key: str, own_pool: bool) -> None:
        asked = decode(body, MessagesRequest)
        self._builder = MessageBuilder(asked, key=key)
        self._body = chat_body(lambda: chat_request(asked, own_pool=own_pool))

    @property
    def body(self) -> bytes:
        return self._body

    def whole(self, answer: bytes) -> bytes:
        return msgspec.json.encode(self._builder.whole(read_answer(answer)))

    def stream(self) -> MessageStream:
        return MessageStream(self._builder)
