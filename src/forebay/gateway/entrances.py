"""The ways in: what the inference routes differ in."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.api.generation import GenerationFields
from forebay.api.messages import MessagesRequest
from forebay.api.responses import ResponsesRequest
from forebay.api.unknown_fields import ignored_fields_header
from forebay.fleet.pool import Pool
from forebay.gateway.caller import ANTHROPIC_KEY_HEADER
from forebay.gateway.messages.problems import ANTHROPIC_REQUEST_ID, ExceptionHandlers, anthropic_exception_handlers
from forebay.gateway.messages.translation import MessagesTranslation
from forebay.gateway.responses.translation import ResponsesTranslation
from forebay.gateway.translation import Translation, Verbatim
from forebay.serving.request import Route

Translated = tuple[Translation, Mapping[str, str]]
"""With the headers that its response gets."""


@dataclass(frozen=True, kw_only=True)
class Entrance:
    """One route. `name` is its path below `/v1`, `upstream` that of the pools.

    `translate` takes a body, its pool and what the ids of the answer are made of, and raises the error that refuses the
    body. `key_header` is where a key may come beside `Authorization`, `request_id_header` where its clients look for
    the request's id beside `X-Request-Id`.
    """

    name: str
    upstream: Route
    translate: Callable[[bytes, Pool, str], Translated]
    key_header: str | None = None
    request_id_header: str | None = None
    exception_handlers: ExceptionHandlers = field(default_factory=dict)


def _verbatim(type_: type[GenerationFields]) -> Callable[[bytes, Pool, str], Translated]:
    """A pool that takes other fields than ours judges them itself."""

    def translate(body: bytes, pool: Pool, _key: str) -> Translated:
        if not pool.exact_fields:
            return Verbatim(body), {}
        decode(body, type_)
        return Verbatim(body), ignored_fields_header(body, type_)

    return translate


def _responses(body: bytes, _pool: Pool, key: str) -> Translated:
    translation = ResponsesTranslation(body, key=key, created_at=int(time.time()))
    return translation, ignored_fields_header(body, ResponsesRequest)


def _messages(body: bytes, pool: Pool, key: str) -> Translated:
    translation = MessagesTranslation(body, key=key, own_pool=pool.exact_fields, extensions=pool.knows_extensions)
    return translation, ignored_fields_header(body, MessagesRequest)


ENTRANCES = (
    Entrance(name="chat/completions", upstream="chat/completions", translate=_verbatim(ChatCompletionRequest)),
    Entrance(name="completions", upstream="completions", translate=_verbatim(CompletionRequest)),
    Entrance(name="responses", upstream="chat/completions", translate=_responses),
    Entrance(
        name="messages",
        upstream="chat/completions",
        translate=_messages,
        key_header=ANTHROPIC_KEY_HEADER,
        request_id_header=ANTHROPIC_REQUEST_ID,
        exception_handlers=anthropic_exception_handlers(),
    ),
)
