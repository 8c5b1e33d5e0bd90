"""Reads what a streamed answer uses, and writes its events as the caller asked for them."""

from collections.abc import Iterator

import msgspec

from forebay.api import sse
from forebay.api.generation import Usage
from forebay.core.errors import UpstreamFailed
from forebay.metering.usage import TokenUsage
from forebay.serving.output_ask import ToldUsage

_Fields = dict[str, msgspec.Raw]
_fields = msgspec.json.Decoder(_Fields)
_usage = msgspec.json.Decoder(Usage | None)

_NO_CHOICES = b"[]"
_NULL = b"null"


class _Choice(msgspec.Struct):
    index: int = 0
    finish_reason: str | None = None


_choices = msgspec.json.Decoder(list[_Choice])


class StreamMeter:
    """One stream's events: in as the replica's whole events, out under the `alias` that was asked for.

    `told_usage` says which events the caller gets the usage of: "none", the "last" alone, or "all".
    """

    def __init__(self, alias: str | None, told_usage: ToldUsage) -> None:
        self._alias = None if alias is None else msgspec.Raw(msgspec.json.encode(alias))
        self._told = told_usage
        self._parser = sse.SseParser()
        self._last: _Fields = {}
        self._finished: set[int] = set()
        self.tokens: TokenUsage | None = None
        """The last usage that was told."""
        self.events = 0
        """How many had a choice: about as many tokens, where no usage is told."""
        self.ended = False
        """Whether the end mark came."""
        self.failed = False
        """Whether an event told of an error."""

    def feed(self, chunk: bytes) -> bytes:
        """The events for the caller. Raises UpstreamFailed."""
        return b"".join(self._events(chunk))

    def _events(self, chunk: bytes) -> Iterator[bytes]:
        for event in self._parser.feed(chunk):
            if event.is_done:
                self.ended = True
                yield sse.DONE
            else:
                yield self._event(event.data)

    def _event(self, data: bytes) -> bytes:
        try:
            fields = _fields.decode(data)
            usage = fields.get("usage")
            choices = bytes(fields.get("choices", _NO_CHOICES))
            has_choice = choices != _NO_CHOICES
            if usage is not None and (told := _usage.decode(usage)) is not None:
                self.tokens = tokens_of(told)
            if has_choice:
                self._last = fields
            if b"finish_reason" in choices:
                self._finished.update(each.index for each in _choices.decode(choices) if each.finish_reason is not None)
        except (msgspec.DecodeError, RecursionError):
            raise UpstreamFailed("The model's server streamed an event that is not a completion's chunk.") from None
        self.events += has_choice
        self.failed = self.failed or bytes(fields.get("error", _NULL)) != _NULL
        if self._alias is not None and "model" in fields:
            fields["model"] = self._alias
        if usage is not None and self._told != "all":
            if not has_choice and "choices" in fields:
                return sse.event(msgspec.json.encode(fields)) if self._told == "last" else b""
            del fields["usage"]
        return sse.event(msgspec.json.encode(fields))

    def stopped(self, choices: int) -> bytes:
        """The events that end the stream before its time, each of its `choices` that still runs as cut for length."""
        fields = {name: self._last[name] for name in ("id", "object", "created", "model") if name in self._last}
        spoken = {"text": ""} if bytes(fields.get("object", b"")) == b'"text_completion"' else {"delta": {}}
        events = [
            sse.event(
                msgspec.json.encode({**fields, "choices": [{"index": index, **spoken, "finish_reason": "length"}]})
            )
            for index in range(choices)
            if index not in self._finished
        ]
        if self._told != "none" and self.tokens is not None:
            usage = Usage.of(
                prompt_tokens=self.tokens.prompt_tokens,
                cached_tokens=self.tokens.cached_tokens,
                completion_tokens=self.tokens.output_tokens,
            )
            events.append(sse.event(msgspec.json.encode({**fields, "choices": [], "usage": usage})))
        self.ended = True
        return b"".join([*events, sse.DONE])


def tokens_of(usage: Usage) -> TokenUsage:
    """As metering counts them: never less than none, whatever a server says."""
    details = usage.prompt_tokens_details
    prompt, cached = max(usage.prompt_tokens, 0), (details.cached_tokens or 0) if details is not None else 0
    return TokenUsage(
        prompt_tokens=prompt,
        cached_tokens=min(max(cached, 0), prompt),
        output_tokens=max(usage.completion_tokens, 0),
    )
