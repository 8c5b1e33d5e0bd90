"""What is written down of every request that was let in."""

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

UsageStatus = Literal["completed", "stopped", "client_left", "failed", "recovered"]
"""`stopped`: ended before its time because its quota did not cover more. `failed`: an error ended it, with
`http_status`. `recovered`: closed after the process that served it had died."""
Counted = Literal["engine", "last_seen", "estimated"]
"""Where token counts come from: the engine's own at the end, its last sign before it (or the client) was gone, or our
own count of what was asked and streamed, where an engine tells none."""


class OpenedUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a request when it is let in. Times in Unix seconds; `prompt_tokens` by our own count.

    `id` is unique; `request_id` is what the client was told (its own choice, where it made one). The prices are those
    of the request, so that whoever closes the record can tell the cost.
    """

    id: str
    request_id: str
    tenant: str
    key: str
    tags: Mapping[str, str]
    alias: str
    model_version: str
    pool: str
    priority: str
    route: str
    stream: bool
    opened_at: float
    prompt_tokens: int
    fallback: bool
    price_version: str | None
    prompt_nanos_per_million: int
    cached_nanos_per_million: int
    output_nanos_per_million: int
    idempotency_hash: str | None = None
    replica: str | None = None


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one request. `cached_tokens` are part of `prompt_tokens`."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


NOTHING = TokenUsage(prompt_tokens=0, cached_tokens=0, output_tokens=0)


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request, ended: immutable. `cost_nanos` in nano-dollars; `ttft_s` from arrival to the first token, `tpot_s`
    between the tokens after it, `queue_wait_s` before a replica took it; None where there was none.
    """

    id: str
    request_id: str
    tenant: str
    key: str
    tags: Mapping[str, str]
    alias: str
    model_version: str
    pool: str
    replica: str | None
    priority: str
    route: str
    stream: bool
    opened_at: float
    ended_at: float
    status: UsageStatus
    http_status: int
    counted: Counted
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    ttft_s: float | None
    tpot_s: float | None
    queue_wait_s: float | None
    fallback: bool
    price_version: str | None
    cost_nanos: int
    idempotency_hash: str | None = None

    @property
    def tokens(self) -> TokenUsage:
        return TokenUsage(
            prompt_tokens=self.prompt_tokens, cached_tokens=self.cached_tokens, output_tokens=self.output_tokens
        )


class UsageLog(Protocol):
    """Where usage is written first, on this machine. Raises StoreUnavailable where it cannot be written (full disk)."""

    async def open(self, opened: OpenedUsage) -> None:
        """Returns when it would survive a loss of power. Many wait for one write together."""
        ...

    def seen(self, id_: str, tokens: TokenUsage, replica: str) -> None:
        """What a request that still runs has used so far, and where: a hint for recovery. Never waits or raises."""
        ...

    async def close(self, record: UsageRecord) -> None:
        """Ends what was opened. Survives the death of the process on return, a loss of power soon after. An id that was
        closed before is not closed again.
        """
        ...
