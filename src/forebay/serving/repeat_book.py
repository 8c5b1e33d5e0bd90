"""Which `Idempotency-Key`s were used, and what became of the requests that used them first."""

from typing import Literal, Protocol

import msgspec


class BilledUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a request was billed for; `cost_usd` as decimal text."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: str


class FirstRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The first request of a key. `fingerprint` tells its content from others', empty where that is not known any more.

    While it is "running", its gateway lives until `alive_until` (Unix seconds) at least; `usage` is there once it has
    "ended".
    """

    request_id: str
    fingerprint: str
    state: Literal["running", "ended"]
    alive_until: float
    usage: BilledUsage | None = None


class RepeatBook(Protocol):
    """Kept by digests of tenant and key. Each call is one atomic step. All raise StoreUnavailable."""

    async def claim(self, digest: str, first: FirstRequest, ttl_s: float) -> FirstRequest | None:
        """Write `first` where there is none, for `ttl_s`, and return None; else return what is there."""
        ...

    async def write(self, digest: str, first: FirstRequest, ttl_s: float) -> None:
        """Replace what is there."""
        ...

    async def release(self, digest: str) -> None:
        """Forget it: the key may be used again."""
        ...


class AnswerShelf(Protocol):
    """Keeps whole answers of tenants that opted in to that, for a while."""

    async def put(self, tenant_id: str, digest: str, answer: bytes) -> None:
        """Raises StoreUnavailable."""
        ...

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        """None where it is not kept any more. Raises StoreUnavailable."""
        ...
