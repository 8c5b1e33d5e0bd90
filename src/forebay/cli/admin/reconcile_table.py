"""A reconciliation as it is printed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from forebay.api.usage import told_time
from forebay.cli.admin.tables import NOTHING, Column, limit, print_table
from forebay.metering.reconciliation import COMPARED, DRIFT, Compared, Finding, PoolDrift, Terms
from forebay.metering.usage import TokenUsage

APART: dict[Finding, str] = {
    "last_seen": "billed by what was last seen of them",
    "estimated": "billed by an estimate",
    "older than the log": "older than their engine's log",
    "no log": "of replicas without a log here",
    "recent": "too recent to judge",
}
"""What is not compared, and why."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pool, or a request with its `finding`. None where a side does not know of it."""

    pool: str
    id: str | None = None
    requests: int | None = None
    drifting: int | None = None
    finding: Finding | None = None
    engine: TokenUsage | None
    billed: TokenUsage | None
    difference: TokenUsage
    drift: bool


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """`findings`: how many requests there are of each. `drift`: whether any of the rows is."""

    object: Literal["usage_reconciliation"] = "usage_reconciliation"
    from_: str = msgspec.field(name="from")
    to: str
    by: Literal["request", "pool"]
    tolerance: float
    drift: bool
    findings: dict[Finding, int]
    data: Sequence[Row]

    @classmethod
    def of(
        cls, requests: Sequence[Compared], pools: Sequence[PoolDrift], terms: Terms, by: Literal["request", "pool"]
    ) -> "Reconciliation":
        if by == "pool":
            rows = [_pool_row(pool) for pool in pools]
        else:
            rows = [_request_row(request) for request in requests if request.finding != "agrees"]
        return cls(
            from_=told_time(terms.begins),
            to=told_time(terms.ends),
            by=by,
            tolerance=terms.tolerance,
            drift=any(row.drift for row in rows),
            findings=dict(Counter(request.finding for request in requests)),
            data=rows,
        )


def print_reconciliation(made: Reconciliation) -> None:
    rows = [msgspec.structs.asdict(row) for row in made.data]
    if rows:
        print_table(_columns(made.by), rows, "")
        print()
    print(_closing(made))


def _pool_row(pool: PoolDrift) -> Row:
    return Row(
        pool=pool.pool,
        requests=pool.requests,
        drifting=pool.drifting,
        engine=pool.engine,
        billed=pool.billed,
        difference=pool.difference,
        drift=pool.flagged,
    )


def _request_row(request: Compared) -> Row:
    return Row(
        id=request.id,
        pool=request.pool,
        finding=request.finding,
        engine=request.engine,
        billed=request.billed,
        difference=request.difference,
        drift=request.finding in DRIFT,
    )


def _columns(by: Literal["request", "pool"]) -> list[Column]:
    if by == "pool":
        first = [
            Column("pool", lambda row: row["pool"]),
            Column("requests", lambda row: limit(row["requests"]), "right"),
            Column("drifting", lambda row: limit(row["drifting"]), "right"),
        ]
    else:
        first = [Column("request", lambda row: row["id"]), Column("pool", lambda row: row["pool"])]
    return [
        *first,
        Column("engine: prompt, cached, output", lambda row: _tokens(row["engine"]), "right"),
        Column("billed: prompt, cached, output", lambda row: _tokens(row["billed"]), "right"),
        Column("billed more", lambda row: _signed(row["difference"]), "right"),
        Column("", _flag),
    ]


def _flag(row: dict[str, Any]) -> str:
    if row["finding"] is None:
        return "DRIFT" if row["drift"] else "agrees"
    return f"DRIFT: {row['finding']}" if row["drift"] else row["finding"]


def _tokens(tokens: TokenUsage | None) -> str:
    if tokens is None:
        return NOTHING
    return f"{tokens.prompt_tokens:,}/{tokens.cached_tokens:,}/{tokens.output_tokens:,}"


def _signed(tokens: TokenUsage) -> str:
    return f"{tokens.prompt_tokens:+,}/{tokens.cached_tokens:+,}/{tokens.output_tokens:+,}"


def _closing(made: Reconciliation) -> str:
    compared = sum(number for finding, number in made.findings.items() if finding in COMPARED)
    found = [
        f"{number:,} {finding}"
        for finding in ("differs", "not billed", "not in the log")
        if (number := made.findings.get(finding, 0))
    ]
    verdict = "Drift" if made.drift else "No drift"
    told = f"{verdict}: {compared:,} compared" + (f", of which {', '.join(found)}" if found else "") + "."
    apart = [f"{number:,} {why}" for finding, why in APART.items() if (number := made.findings.get(finding, 0))]
    return told + (f" Not compared: {', '.join(apart)}." if apart else "")
