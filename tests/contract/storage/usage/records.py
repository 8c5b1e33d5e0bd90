"""Usage to write down."""

from typing import Any

from forebay.metering.closing import closed
from forebay.metering.usage import OpenedUsage, TokenUsage, UsageRecord

NOON = 1_764_504_000.0
"""2025-11-30 12:00 UTC: the last day of a month."""
DAY_S = 86400.0


def opened(id_: str, **fields: Any) -> OpenedUsage:
    known: dict[str, Any] = {
        "request_id": f"request-of-{id_}",
        "tenant": "acme",
        "key": "key-1",
        "tags": {"team": "search", "Ünïcode\n": '"quoted" 語'},
        "alias": "assistant",
        "model_version": "smollm2@1",
        "pool": "assistant-large",
        "priority": "interactive",
        "route": "/v1/chat/completions",
        "stream": True,
        "opened_at": NOON,
        "prompt_tokens": 100,
        "fallback": False,
        "price_version": "price-1",
        "prompt_nanos_per_million": 410_000_001,
        "cached_nanos_per_million": 41_000_000,
        "output_nanos_per_million": 980_000_000,
    }
    return OpenedUsage(id=id_, **{**known, **fields})


def tokens(prompt: int = 100, cached: int = 40, output: int = 25) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, cached_tokens=cached, output_tokens=output)


def ended(usage: OpenedUsage, used: TokenUsage | None = None, **fields: Any) -> UsageRecord:
    known: dict[str, Any] = {
        "ended_at": usage.opened_at + 2.0,
        "status": "completed",
        "http_status": 200,
        "counted": "engine",
        "replica": "assistant-large-0",
        "ttft_s": 0.25,
        "tpot_s": 0.05,
        "queue_wait_s": 0.01,
    }
    return closed(usage, used or tokens(), **{**known, **fields})
