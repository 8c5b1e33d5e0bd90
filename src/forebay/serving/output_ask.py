"""How much output a request asks for."""

from dataclasses import dataclass
from typing import Any

import msgspec

from forebay.api.completions import DEFAULT_MAX_TOKENS
from forebay.serving.request import Route

MAX_COUNT = 2**31 - 1


class _Fields(msgspec.Struct):
    n: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    stream_options: Any = None


_fields = msgspec.json.Decoder(_Fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAsk:
    """`choices` answers to each prompt, each of at most `max_tokens`, asked for in the field `max_tokens_field`; None:
    not said, and then of at most `unasked` (None: as many as there is room for).

    `wants_usage` says that a stream is to end with its usage, `wants_running_usage` that every event is to tell it.
    """

    choices: int
    max_tokens: int | None
    max_tokens_field: str
    unasked: int | None
    wants_usage: bool
    wants_running_usage: bool


def output_ask(route: Route, body: bytes) -> OutputAsk:
    """What the JSON object `body` asks for. A value that is no count is left for the replica to refuse."""
    fields = _fields.decode(body)
    newer, older = _count(fields.max_completion_tokens), _count(fields.max_tokens)
    by_newer = newer is not None and (older is None or newer >= older)
    options: dict[str, Any] = fields.stream_options if isinstance(fields.stream_options, dict) else {}
    return OutputAsk(
        choices=max(1, _count(fields.n) or 1),
        max_tokens=newer if by_newer else older,
        max_tokens_field="max_completion_tokens" if by_newer else "max_tokens",
        unasked=None if route == "chat/completions" else DEFAULT_MAX_TOKENS,
        wants_usage=options.get("include_usage") is True,
        wants_running_usage=options.get("continuous_usage_stats") is True,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else None
