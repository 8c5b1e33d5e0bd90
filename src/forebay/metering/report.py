"""What is asked of the books of usage."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from forebay.core.calendar import month_bounds
from forebay.core.errors import InvalidRequest
from forebay.metering.usage import UsageRecord

FIELDS = ("tenant", "key", "alias", "model_version", "pool", "priority", "status")
TIMES = ("day", "hour", "month")
TAG = "tag:"
MOST_GROUPS = 8
_KNOWN = f"{', '.join(FIELDS + TIMES)}, and {TAG}NAME for a key's tag"


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests of one group used. `group` is what they have in common, None where they have no such tag.

    `prompt_nanos` is the prompts' part of `cost_nanos` (nano-dollars). Times in seconds, of the requests that have any.
    """

    group: Mapping[str, str | None]
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nanos: int
    prompt_nanos: int
    ttft_mean_s: float | None
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    tpot_mean_s: float | None
    tpot_p50_s: float | None
    tpot_p95_s: float | None


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent under a key of a tenant with an alias, in nano-dollars."""

    tenant: str
    alias: str
    key: str
    nanos: int


class UsageBooks(Protocol):
    """All usage that has ended, each request once. All raise StoreUnavailable where it cannot be read."""

    async def query(
        self, start: float, end: float, group_by: Sequence[str], where: Mapping[str, str]
    ) -> list[UsageRow]:
        """Sums over the requests that ended in [start, end) (Unix seconds), by every combination of `group_by` that
        there is, in order; of none: one row. `where` is group → the value it must have. Days and the like are UTC's.

        Raises InvalidRequest: an unknown group, an end before the start, more rows than can be answered.
        """
        ...

    async def records(
        self, start: float, end: float, where: Mapping[str, str], *, after: str | None, limit: int
    ) -> list[UsageRecord]:
        """The requests that ended in [start, end) and match `where` as above, oldest first, of one moment by their id:
        `limit` of them at most, those that come after the one whose id is `after`.

        Raises InvalidRequest as above, and where none of these requests has that id.
        """
        ...

    async def repeatable(self, since: float) -> list[UsageRecord]:
        """The requests that ended since then (Unix seconds) and had an idempotency key, oldest first."""
        ...


def require_groups(names: Sequence[str], *, param: str) -> None:
    """Raises InvalidRequest where one is not known, or is there twice."""
    for name in names:
        if name in FIELDS or name in TIMES or (name.startswith(TAG) and len(name) > len(TAG)):
            continue
        raise InvalidRequest(f"Usage cannot be grouped by `{name}`; known are {_KNOWN}.", param=param)
    if len(set(names)) < len(names) or len(names) > MOST_GROUPS:
        raise InvalidRequest(f"Give each group once, and {MOST_GROUPS} at most.", param=param)


async def spent_in(books: UsageBooks, month: str) -> list[Spent]:
    """What was spent in a month (`2026-11`) so far."""
    rows = await books.query(*month_bounds(month), ("tenant", "alias", "key"), {})
    return [
        Spent(
            tenant=row.group["tenant"] or "",
            alias=row.group["alias"] or "",
            key=row.group["key"] or "",
            nanos=row.cost_nanos,
        )
        for row in rows
    ]
