"""Whether what was billed is what the engines say they did."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from forebay.metering.usage import NOTHING, Counted, TokenUsage

Finding = Literal[
    "agrees",
    "differs",
    "not billed",
    "not in the log",
    "last_seen",
    "estimated",
    "older than the log",
    "no log",
    "recent",
]
"""What came out for a request. The first four are of those that were compared, the second to fourth of them drift.

`last_seen`, `estimated`: not billed by the engine's own count. `older than the log`: begun before what its replica's
log tells of. `no log`: of its replica there is none. `recent`: the other side may not know of it yet.
"""
COMPARED: frozenset[Finding] = frozenset({"agrees", "differs", "not billed", "not in the log"})
DRIFT: frozenset[Finding] = COMPARED - {"agrees"}


class BilledRequest(msgspec.Struct, frozen=True):
    """Of a usage record, by the same names, what is needed here."""

    id: str
    pool: str
    replica: str | None
    opened_at: float
    ended_at: float
    counted: Counted
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> TokenUsage:
        return TokenUsage(
            prompt_tokens=self.prompt_tokens, cached_tokens=self.cached_tokens, output_tokens=self.output_tokens
        )


@dataclass(frozen=True, slots=True)
class EngineCount:
    """What an engine says in the log `log` of a request that ended there at `at` (Unix seconds)."""

    log: str
    at: float
    tokens: TokenUsage


@dataclass(frozen=True, slots=True)
class EngineBooks:
    """`counts`: request id → what its engine says. `begins`: log → the time from which on it is whole (Unix seconds).

    A log that has a replica's name is of that replica; of the others it is told by the requests in it.
    """

    counts: Mapping[str, EngineCount]
    begins: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Requests that ended in [begins, ends) are looked at, at `now` (all Unix seconds). Those of the last `grace_s`
    seconds that one side does not know of may still come there. `tolerance`: see `differs`.
    """

    begins: float
    ends: float
    now: float
    grace_s: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Compared:
    """One request; `pool` is its log's name where it is not told. None where a side does not know of it."""

    id: str
    pool: str
    engine: TokenUsage | None
    billed: TokenUsage | None
    finding: Finding

    @property
    def difference(self) -> TokenUsage:
        """How many more were billed than the engine counted; less than 0 where fewer."""
        return _minus(self.billed or NOTHING, self.engine or NOTHING)


@dataclass(frozen=True, slots=True)
class PoolDrift:
    """The requests of a pool that were compared. `astray` are the tokens by which they differ, none set off
    against another; `flagged` says that these are more than is tolerated.
    """

    pool: str
    requests: int
    drifting: int
    engine: TokenUsage
    billed: TokenUsage
    astray: TokenUsage
    flagged: bool

    @property
    def difference(self) -> TokenUsage:
        """How many more were billed than the engine counted; less than 0 where fewer."""
        return _minus(self.billed, self.engine)


def reconcile(billed: Sequence[BilledRequest], books: EngineBooks, terms: Terms) -> list[Compared]:
    """A row for each request that ended in the period, oldest first. A billed one ended when its record says so; one
    that is in an engine's log only, at the time told there. `billed` must reach beyond the period on both sides by as
    much as these times may differ.
    """
    reach = _Reach(billed, books)
    rows = [
        (record.ended_at, _of_record(record, reach, terms))
        for record in billed
        if terms.begins <= record.ended_at < terms.ends
    ]
    known = {record.id for record in billed}
    for id_, count in books.counts.items():
        if id_ not in known and terms.begins <= count.at < terms.ends:
            recent = count.at > terms.now - terms.grace_s
            finding: Finding = "agrees" if count.tokens == NOTHING else "recent" if recent else "not billed"
            rows.append((count.at, Compared(id_, reach.pools.get(count.log, count.log), count.tokens, None, finding)))
    return [row for _, row in sorted(rows, key=lambda timed: (timed[0], timed[1].id))]


def by_pool(rows: Iterable[Compared], tolerance: float) -> list[PoolDrift]:
    """The compared of `rows`, summed up; in the order of names."""
    pools: dict[str, list[Compared]] = {}
    for row in rows:
        if row.finding in COMPARED:
            pools.setdefault(row.pool, []).append(row)
    return [_pool_drift(name, pools[name], tolerance) for name in sorted(pools)]


def differs(billed: TokenUsage, engine: TokenUsage, tolerance: float) -> bool:
    """Whether prompt, cached or output tokens differ by more than this share of the engine's count (0.001 is a
    thousandth).
    """
    return _beyond(_absolute(_minus(billed, engine)), engine, tolerance)


class _Reach:
    """How far back the logs of each replica go, and which pool each log is of."""

    def __init__(self, billed: Iterable[BilledRequest], books: EngineBooks) -> None:
        self.counts = books.counts
        self.pools: dict[str, str] = {}
        self._begins: dict[str, float] = {}
        for record in billed:
            if record.replica is None:
                continue
            count = books.counts.get(record.id)
            for log in {record.replica, *([] if count is None else [count.log])} & books.begins.keys():
                self.pools[log] = record.pool
                before = self._begins.get(record.replica, books.begins[log])
                # They may be of several engines behind one address: from the latest beginning on all are there.
                self._begins[record.replica] = max(before, books.begins[log])

    def of(self, replica: str | None) -> float | None:
        return None if replica is None else self._begins.get(replica)


def _of_record(record: BilledRequest, reach: _Reach, terms: Terms) -> Compared:
    count = reach.counts.get(record.id)
    engine = None if count is None else count.tokens
    return Compared(record.id, record.pool, engine, record.tokens, _finding(record, engine, reach, terms))


def _finding(record: BilledRequest, engine: TokenUsage | None, reach: _Reach, terms: Terms) -> Finding:
    if record.counted != "engine":
        # What was last seen can be less than what became of it, never more.
        over = record.counted == "last_seen" and engine is not None and _is_more(record.tokens, engine, terms.tolerance)
        return "differs" if over else record.counted
    if engine is not None:
        return "differs" if differs(record.tokens, engine, terms.tolerance) else "agrees"
    if record.tokens == NOTHING:
        return "agrees"
    begins = reach.of(record.replica)
    if begins is None:
        return "no log"
    if record.opened_at < begins:
        return "older than the log"
    return "recent" if record.ended_at > terms.now - terms.grace_s else "not in the log"


def _is_more(billed: TokenUsage, engine: TokenUsage, tolerance: float) -> bool:
    most = 1 + tolerance
    return billed.prompt_tokens > engine.prompt_tokens * most or billed.output_tokens > engine.output_tokens * most


def _pool_drift(name: str, rows: Sequence[Compared], tolerance: float) -> PoolDrift:
    engine = _sum(row.engine or NOTHING for row in rows)
    astray = _sum(_absolute(row.difference) for row in rows)
    drifting = Counter(row.finding in DRIFT for row in rows)[True]
    billed = _sum(row.billed or NOTHING for row in rows)
    return PoolDrift(name, len(rows), drifting, engine, billed, astray, _beyond(astray, engine, tolerance))


def _beyond(apart: TokenUsage, engine: TokenUsage, tolerance: float) -> bool:
    return any(
        difference > tolerance * counted for difference, counted in zip(_each(apart), _each(engine), strict=True)
    )


def _each(tokens: TokenUsage) -> tuple[int, int, int]:
    return tokens.prompt_tokens, tokens.cached_tokens, tokens.output_tokens


def _of(each: Iterable[int]) -> TokenUsage:
    prompt, cached, output = each
    return TokenUsage(prompt_tokens=prompt, cached_tokens=cached, output_tokens=output)


def _minus(first: TokenUsage, second: TokenUsage) -> TokenUsage:
    return _of(ours - theirs for ours, theirs in zip(_each(first), _each(second), strict=True))


def _absolute(tokens: TokenUsage) -> TokenUsage:
    return _of(abs(number) for number in _each(tokens))


def _sum(all_: Iterable[TokenUsage]) -> TokenUsage:
    return _of(map(sum, zip(*map(_each, [NOTHING, *all_]), strict=True)))
