"""Reservation: one lease a request over the requests, tokens, concurrency and budget of every account it is under."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from forebay.tenancy.reservation.limits import Account

LimitKind = Literal["requests", "tokens", "concurrency", "budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a request wants to hold of each of its `accounts`: one request, one concurrency slot, `prompt_tokens` and
    output tokens, and what those cost at most: `prompt_nanos`, and `nanos_per_output_token` (rounded up).

    Output tokens: all of `output_tokens_max` where there is so much, else what there is, but no less than
    `output_tokens_min`.
    """

    lease_id: str
    accounts: tuple[Account, ...]
    prompt_tokens: int
    output_tokens_min: int
    output_tokens_max: int
    prompt_nanos: int = 0
    nanos_per_output_token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a caller stands with one bucket: its burst, what is left now (0 at least), the seconds until it is full."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The lease is held. `output_tokens` is what it has of them. The standings are those of the account with the least
    left, None where no account limits that.
    """

    output_tokens: int
    requests: Standing | None
    tokens: Standing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Nothing is held and nothing has changed. `account` names the one that does not cover the request.

    `retry_after_s` is the time after which it would be granted, were nothing else taken meanwhile; None where that
    cannot be told (concurrency) or never comes: `never` says that the limit itself is smaller than what is asked for. A
    budget comes back with the next month. `limit` and `available` are of the limit that refused (tokens, requests,
    slots, nano-dollars), `asked` what the request wanted of it.
    """

    kind: LimitKind
    account: str
    limit: int
    available: int
    asked: int
    retry_after_s: float | None
    never: bool
    requests: Standing | None
    tokens: Standing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a request has used, or has used so far. With `counts` False it was turned away elsewhere, and its request is
    given back too; the other two are 0 then.
    """

    tokens: int
    nanos: int
    counts: bool = True


NOTHING_YET = Used(tokens=0, nanos=0)
UNUSED = Used(tokens=0, nanos=0, counts=False)

LAPSED_TTLS = 20
"""Times to live for which a lease that has expired is remembered, for a gateway that lives after all."""
MAX_LAPSED = 10_000
"""Leases that have expired and are remembered. Of more the oldest are forgotten."""


class ReservationStore(Protocol):
    """Keeps the counters of all accounts. Each call is one atomic step, whoever else calls.

    All raise StoreUnavailable where the counters cannot be reached.
    """

    async def acquire(self, ask: Ask) -> Granted | Refused: ...

    async def extend(
        self, lease_id: str, accounts: tuple[Account, ...], output_tokens_min: int, output_tokens_max: int
    ) -> int:
        """More output tokens for a lease that is held: how many, 0 where not even the least is there, or where the
        lease is not held any more. One that has expired is taken up again first, as by `renew`.

        `accounts` with their limits as they are now: of the tokens and the budget, for a lease has its request and its
        slot already. An account that the lease is under and that is not named limits it no more. An account, or a limit
        of tokens, that it was not under when it was acquired does not count for it: only the next request is under it.
        """
        ...

    async def settle(self, lease_id: str, used: Used) -> bool:
        """Give up a lease: its slot comes free, what it held and has not used is given back, what it has used beyond
        that is taken all the same. False, and nothing changes, where it is not known: it was settled before, or
        expired long ago. Of one that expired, what it has used beyond what was charged then is taken; what was charged
        too much, its request included, is not given back.
        """
        ...

    async def renew(self, seen: Mapping[str, Used]) -> None:
        """Sign of life for the leases named, each with what it has used so far. One that gets none for the time to live
        expires: it is charged the last of these (of none: nothing used but the request) and what it held comes free. It
        is remembered for LAPSED_TTLS times to live. A sign of life in that time takes it up again, whether there is
        room or not: its slot counts, and what it held beyond what was charged (or has used, if that is more) is taken.
        """
        ...

    async def outstanding(self, accounts: Sequence[str]) -> Mapping[str, int]:
        """How many leases each of the accounts is under."""
        ...

    async def seed_spent(self, account: str, month: str, nanos: int) -> None:
        """Tell what an account has spent in a `month` (`2026-11`), from the books, so that a store that forgot goes on
        from there: what it knows itself counts where it is more.
        """
        ...
