"""How much output a request asks for."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from forebay.api.completions import DEFAULT_MAX_TOKENS
from forebay.api.generation import MAX_CHOICES
from forebay.core.errors import InvalidRequest
from forebay.serving.request import Route

MAX_COUNT = 2**31 - 1
ToldUsage = Literal["none", "last", "all"]


class _Fields(msgspec.Struct):
    n: Any = None
    best_of: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    stream_options: Any = None


_fields = msgspec.json.Decoder(_Fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAsk:
    """`choices` answers to each prompt, each of at most `max_tokens`, asked for in the field `max_tokens_field`; None:
    not said, and then of at most `unasked` (None: as many as there is room for).

    `told_usage` says which events of a stream tell the caller the usage: the last alone, or all.
    """

    choices: int
    max_tokens: int | None
    max_tokens_field: str
    unasked: int | None
    told_usage: ToldUsage


def output_ask(route: Route, body: bytes) -> OutputAsk:
    """What the JSON object `body` asks for, whichever pool it is for. Raises InvalidRequest for a count that is none: a
    lenient server would take for one what was not reserved for.
    """
    fields = _fields.decode(body)
    newer = _count(fields.max_completion_tokens, "max_completion_tokens", 0, MAX_COUNT)
    older = _count(fields.max_tokens, "max_tokens", 0, MAX_COUNT)
    by_newer = newer is not None and (older is None or newer >= older)
    options: dict[str, Any] = fields.stream_options if isinstance(fields.stream_options, dict) else {}
    return OutputAsk(
        choices=max(
            _count(each, name, 1, MAX_CHOICES) or 1 for name, each in (("n", fields.n), ("best_of", fields.best_of))
        ),
        max_tokens=newer if by_newer else older,
        max_tokens_field="max_completion_tokens" if by_newer else "max_tokens",
        unasked=None if route == "chat/completions" else DEFAULT_MAX_TOKENS,
        told_usage=_told_usage(options),
    )


def _told_usage(options: dict[str, Any]) -> ToldUsage:
    if options.get("include_usage") is not True:
        return "none"
    return "all" if options.get("continuous_usage_stats") is True else "last"


def _count(value: object, field: str, least: int, most: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidRequest(f"{field}: expected an integer from {least} to {most}.", param=field)
    return value
