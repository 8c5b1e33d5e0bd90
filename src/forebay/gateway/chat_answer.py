"""What a pool answers to a chat completion, read leniently: pools may be others' servers."""

from typing import Any

import msgspec

from forebay.api.decoding import bounded
from forebay.api.errors import OPENAI_ERRORS
from forebay.api.sse import SseEvent
from forebay.core.errors import (
    CapacityUnavailable,
    ContextTooLong,
    DeadlineExceeded,
    ForebayError,
    InternalError,
    UpstreamFailed,
)

_KINDS: dict[str | None, type[ForebayError]] = {
    OPENAI_ERRORS[kind][1]: kind for kind in (CapacityUnavailable, ContextTooLong, DeadlineExceeded, InternalError)
}
"""Code of an error in a stream → the error that it stays. Others, such as a refused key, are not the caller's."""


class CalledFunction(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct, frozen=True):
    function: CalledFunction | None = None
    id: str | None = None
    index: int | None = None


class Said(msgspec.Struct, frozen=True):
    """A whole message, or what a chunk adds to it. `reasoning` is vLLM's newer name of `reasoning_content`."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None

    @property
    def thought(self) -> str:
        return self.reasoning_content or self.reasoning or ""


class Logprobs(msgspec.Struct, frozen=True):
    content: list[dict[str, Any]] | None = None


class Choice(msgspec.Struct, frozen=True):
    """`message` in a whole answer, `delta` in a chunk."""

    index: int = 0
    message: Said | None = None
    delta: Said | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: Logprobs | None = None

    @property
    def said(self) -> Said:
        return self.message or self.delta or Said()

    @property
    def is_cut(self) -> bool:
        """Whether it was ended by a limit or a filter."""
        return self.finish_reason in {"length", "content_filter"}

    @property
    def is_stopped(self) -> bool:
        """Whether it was ended by a stop text."""
        return isinstance(self.stop_reason, str)

    @property
    def token_logprobs(self) -> list[dict[str, Any]]:
        return (self.logprobs and self.logprobs.content) or []


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct, frozen=True):
    """Token counts; what is not told, or null, is 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None

    @property
    def input_tokens(self) -> int:
        return self.prompt_tokens or 0

    @property
    def output_tokens(self) -> int:
        return self.completion_tokens or 0

    @property
    def cached_tokens(self) -> int:
        return (self.prompt_tokens_details and self.prompt_tokens_details.cached_tokens) or 0

    @property
    def reasoning_tokens(self) -> int:
        return (self.completion_tokens_details and self.completion_tokens_details.reasoning_tokens) or 0


class ChatAnswer(msgspec.Struct, frozen=True):
    """A whole answer or one chunk."""

    choices: list[Choice] | None = None
    usage: ChatUsage | None = None
    service_tier: str | None = None
    created: Any = None
    error: Any = None

    @property
    def first(self) -> Choice | None:
        """The answer that counts: only one is ever asked for."""
        return next((choice for choice in self.choices or () if choice.index == 0), None)


_answers = msgspec.json.Decoder(ChatAnswer)


def read_answer(body: bytes) -> ChatAnswer:
    """A whole answer. Raises UpstreamFailed where it is none."""
    answer = _decoded(body)
    if answer.first is None:
        raise UpstreamFailed("The model's server answered without any choice. Send the request again.")
    return answer


def read_chunk(event: SseEvent) -> ChatAnswer:
    """One event of a stream, not its end mark. Raises the error that it tells of, or that it is no chunk."""
    chunk = _decoded(event.data)
    if chunk.error is not None:
        raise _kind(chunk.error)(_message(chunk.error))
    return chunk


def _decoded(data: bytes) -> ChatAnswer:
    try:
        return _answers.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise UpstreamFailed(
            "The model's server answered with something other than a chat completion. Send the request again."
        ) from None


def _kind(error: Any) -> type[ForebayError]:
    code: Any = error.get("code") if isinstance(error, dict) else None
    return _KINDS.get(code, UpstreamFailed) if isinstance(code, str) else UpstreamFailed


def _message(error: Any) -> str:
    message: Any = error.get("message") if isinstance(error, dict) else error
    return bounded(message) if isinstance(message, str) else "The model's server failed. Send the request again."
