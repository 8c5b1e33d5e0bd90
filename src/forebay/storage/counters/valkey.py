"""Counters in Valkey, shared by all gateways that are given its address."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import msgspec

from forebay.core.errors import ConfigurationError
from forebay.storage.counters.scripts import load_scripts
from forebay.tenancy.reservation.counters import MAX_NANOS
from forebay.tenancy.reservation.lease import Ask, Granted, LimitKind, Refused, Standing, Used
from forebay.tenancy.reservation.limits import Account
from forebay.tenancy.reservation.month import US_PER_SECOND

if TYPE_CHECKING:
    from forebay.storage.counters.valkey_client import ValkeyClient

SETTING = "storage.counters"
KINDS: tuple[LimitKind, ...] = ("requests", "tokens", "concurrency", "budget")
CALL_TIMEOUT_S = 1.0
SERVER_CLOCK = -1
UNLIMITED = -1
LARGEST = MAX_NANOS + 1
"""What is larger is sent as this: it is beyond every limit, and still exact in a double."""


class ValkeyReservations:
    """A `ReservationStore`, to be left again (`async with`). It connects at its first call, and again after each loss.

    Time is the server's. All keys lie under `prefix` with one hash tag, so that a cluster keeps them on one node; each
    call is one script and one round trip, bounded by `timeout_s`. Run the server with `maxmemory-policy noeviction`:
    what is idle expires by itself. `now_us` (Unix microseconds) stands in for the server's clock in tests.
    """

    def __init__(
        self,
        url: str,
        lease_ttl_s: float,
        *,
        prefix: str = "forebay",
        timeout_s: float = CALL_TIMEOUT_S,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._lease_ttl_us = round(lease_ttl_s * US_PER_SECOND)
        self._key = "{" + prefix + "}:leases"
        self._now_us = now_us
        self._scripts = load_scripts()
        self._client = valkey_client(url, timeout_s)
        # Leases under no account: nothing limits them, so the server need not know them.
        self._unlimited: set[str] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def acquire(self, ask: Ask) -> Granted | Refused:
        accounts = list({account.name: account for account in ask.accounts}.values())
        if not accounts:
            self._unlimited.add(ask.lease_id)
            return Granted(output_tokens=ask.output_tokens_max, requests=None, tokens=None)
        answer = await self._run(
            "acquire",
            [
                ask.lease_id,
                min(ask.prompt_tokens, LARGEST),
                min(ask.output_tokens_min, LARGEST),
                min(ask.output_tokens_max, LARGEST),
                min(ask.prompt_nanos, LARGEST),
                min(ask.nanos_per_output_token, LARGEST),
                [_sent_account(account) for account in accounts],
            ],
        )
        return _answered(cast("list[int]", answer), ask, accounts)

    async def extend(
        self, lease_id: str, accounts: tuple[Account, ...], output_tokens_min: int, output_tokens_max: int
    ) -> int:
        if lease_id in self._unlimited:
            return output_tokens_max
        limits = [_sent_account(account) for account in accounts]
        sent = [lease_id, min(output_tokens_min, LARGEST), min(output_tokens_max, LARGEST), limits]
        return cast("int", await self._run("extend", sent))

    async def settle(self, lease_id: str, used: Used) -> bool:
        if lease_id in self._unlimited:
            self._unlimited.discard(lease_id)
            return True
        return await self._run("settle", _sent_used(lease_id, used)) == 1

    async def renew(self, seen: Mapping[str, Used]) -> None:
        renewed = [_sent_used(lease, used) for lease, used in seen.items() if lease not in self._unlimited]
        if renewed:
            await self._run("renew", renewed)

    async def outstanding(self, accounts: Sequence[str]) -> Mapping[str, int]:
        if not accounts:
            return {}
        counts = cast("list[int]", await self._run("outstanding", list(accounts)))
        return dict(zip(accounts, counts, strict=True))

    async def seed_spent(self, account: str, month: str, nanos: int) -> None:
        await self._run("seed_spent", [account, month, min(nanos, MAX_NANOS)])

    async def _run(self, name: str, sent: Sequence[object]) -> object:
        now_us = SERVER_CLOCK if self._now_us is None else self._now_us()
        packed = msgspec.msgpack.encode(sent)
        return await self._client.run(self._scripts[name], self._key, self._lease_ttl_us, now_us, packed)


def valkey_client(url: str, timeout_s: float) -> "ValkeyClient":
    """Raises ConfigurationError where the extra is not installed, or `url` is no address."""
    try:
        return import_module("forebay.storage.counters.valkey_client").ValkeyClient(url, timeout_s)
    except ImportError as error:
        raise ConfigurationError(
            f"The setting {SETTING} names a Valkey server, whose client is not installed. Install `forebay[valkey]`, "
            "or leave the counters in memory."
        ) from error


def _sent_account(account: Account) -> list[object]:
    limits = account.limits
    numbers = (
        limits.tokens_per_minute,
        limits.token_burst,
        limits.requests_per_minute,
        limits.request_burst,
        limits.concurrent_requests,
        limits.budget_nanos,
    )
    return [account.name, *(UNLIMITED if number is None else min(number, LARGEST) for number in numbers)]


def _sent_used(lease_id: str, used: Used) -> list[object]:
    return [lease_id, min(used.tokens, LARGEST), min(used.nanos, MAX_NANOS), used.counts]


def _answered(answer: Sequence[int], ask: Ask, accounts: Sequence[Account]) -> Granted | Refused:
    """What `acquire.lua` answers, in its order."""
    requests, tokens = _standing(answer[-6:-3]), _standing(answer[-3:])
    if answer[0] == 1:
        return Granted(output_tokens=answer[1], requests=requests, tokens=tokens)
    _, kind_index, account, limit, available, wait_us, never, *_ = answer
    kind = KINDS[kind_index]
    asked: dict[LimitKind, int] = {
        "requests": 1,
        "tokens": ask.prompt_tokens + ask.output_tokens_min,
        "concurrency": 1,
        "budget": ask.prompt_nanos + ask.output_tokens_min * ask.nanos_per_output_token,
    }
    return Refused(
        kind=kind,
        account=accounts[account].name,
        limit=limit,
        available=available,
        asked=asked[kind],
        retry_after_s=None if wait_us < 0 else wait_us / US_PER_SECOND,
        never=bool(never),
        requests=requests,
        tokens=tokens,
    )


def _standing(numbers: Sequence[int]) -> Standing | None:
    limit, remaining, reset_us = numbers
    if limit < 0:
        return None
    return Standing(limit=limit, remaining=remaining, reset_s=reset_us / US_PER_SECOND)
