"""Whose limits a request is under."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a holder may use; None does not limit. Bursts are there wherever their rates are. `budget_nanos` is for a
    calendar month (UTC), in nano-dollars.
    """

    tokens_per_minute: int | None = None
    token_burst: int | None = None
    requests_per_minute: int | None = None
    request_burst: int | None = None
    concurrent_requests: int | None = None
    budget_nanos: int | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """A holder of limits: `name` is the id of its quota. Its counters are kept under that name."""

    name: str
    limits: Limits
