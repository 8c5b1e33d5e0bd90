"""Which requests are compared, and what comes out."""

from typing import Any

import pytest

from forebay.metering.reconciliation import (
    BilledRequest,
    Compared,
    EngineBooks,
    EngineCount,
    Finding,
    Terms,
    by_pool,
    reconcile,
)
from forebay.metering.usage import TokenUsage

BEGINS, ENDS, NOW = 1000.0, 2000.0, 5000.0
LOG = "large-0"


def used(prompt: int, cached: int, output: int) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, cached_tokens=cached, output_tokens=output)


def billed(id_: str = "r", prompt: int = 100, cached: int = 40, output: int = 25, **fields: Any) -> BilledRequest:
    known: dict[str, Any] = {"pool": "large", "replica": "large-0", "opened_at": 1499.0, "counted": "engine"}
    known |= {"ended_at": 1500.0, "prompt_tokens": prompt, "cached_tokens": cached, "output_tokens": output}
    return BilledRequest(id_, **{**known, **fields})


def counted(prompt: int = 100, cached: int = 40, output: int = 25, at: float = 1500.0, log: str = LOG) -> EngineCount:
    return EngineCount(log, at, used(prompt, cached, output))


def compare(
    records: list[BilledRequest],
    counts: dict[str, EngineCount],
    begins: dict[str, float] | None = None,
    **fields: float,
) -> list[Compared]:
    known = {"begins": BEGINS, "ends": ENDS, "now": NOW, "grace_s": 900.0, "tolerance": 0.0}
    return reconcile(
        records, EngineBooks(counts, {LOG: 0.0} if begins is None else begins), Terms(**{**known, **fields})
    )


def finding(record: BilledRequest | None, count: EngineCount | None, **fields: Any) -> Finding:
    (row,) = compare([record] if record else [], {"r": count} if count else {}, **fields)
    return row.finding


@pytest.mark.parametrize("field", ["prompt", "cached", "output"])
@pytest.mark.parametrize("more", [1, -1])
def test_one_token_is_drift(field: str, more: int) -> None:
    tokens = {"prompt": 100, "cached": 40, "output": 25}
    record = billed(**{**tokens, field: tokens[field] + more})
    assert finding(billed(), counted()) == "agrees"
    (row,) = compare([record], {"r": counted()})
    assert (row.finding, getattr(row.difference, f"{field}_tokens")) == ("differs", more)


def test_what_is_tolerated_is_a_share_of_the_engines_count() -> None:
    assert finding(billed(output=1001), counted(output=1000), tolerance=0.001) == "agrees"
    assert finding(billed(output=1002), counted(output=1000), tolerance=0.001) == "differs"
    assert finding(billed(output=1), counted(output=0), tolerance=0.5) == "differs"


def test_what_an_engine_ran_and_nobody_was_billed_for() -> None:
    assert finding(None, counted()) == "not billed"
    assert finding(None, counted(at=NOW - 10), ends=NOW) == "recent"
    assert finding(None, counted(0, 0, 0)) == "agrees"


def test_what_is_billed_and_in_no_log() -> None:
    others = {LOG: 1400.0}
    assert finding(billed(), None, begins=others) == "not in the log"
    assert finding(billed(opened_at=1399.0), None, begins=others) == "older than the log"
    assert finding(billed(ended_at=NOW - 10), None, begins=others, ends=NOW) == "recent"
    assert finding(billed(replica="large-1"), None, begins=others) == "no log"
    assert finding(billed(replica=None), None, begins=others) == "no log"
    assert finding(billed(prompt=0, cached=0, output=0), None) == "agrees", "it was turned away"


def test_what_the_engine_did_not_count_at_the_end_is_told_apart() -> None:
    assert finding(billed(output=20, counted="last_seen"), counted()) == "last_seen"
    assert finding(billed(output=20, counted="last_seen"), None) == "last_seen"
    assert finding(billed(output=26, counted="last_seen"), counted()) == "differs", "nobody pays for more than was done"
    assert finding(billed(output=30, counted="estimated"), counted()) == "estimated"


def test_a_log_by_any_name_is_of_the_replicas_whose_requests_are_in_it() -> None:
    records = [billed("known"), billed("lost"), billed("old", opened_at=1200.0)]
    rows = compare(records, {"known": counted(log="vllm"), "free": counted(log="vllm")}, {"vllm": 1300.0})
    told = {row.id: (row.pool, row.finding) for row in rows}
    assert told == {
        "known": ("large", "agrees"),
        "lost": ("large", "not in the log"),
        "old": ("large", "older than the log"),
        "free": ("large", "not billed"),
    }


def test_of_several_engines_behind_one_replica_the_log_that_begins_last_counts() -> None:
    records = [billed("a"), billed("b"), billed("lost", opened_at=1300.0)]
    counts = {"a": counted(log="host-a"), "b": counted(log="host-b")}
    rows = compare(records, counts, {"host-a": 1000.0, "host-b": 1400.0})
    assert [row.finding for row in rows if row.id == "lost"] == ["older than the log"]


def test_the_record_says_which_period_a_request_is_of() -> None:
    records = [billed("before", ended_at=BEGINS - 1), billed("first", ended_at=BEGINS), billed("next", ended_at=ENDS)]
    counts = {
        "before": counted(at=BEGINS + 1),
        "first": counted(at=BEGINS - 1),
        "next": counted(at=ENDS - 1),
        "earlier": counted(at=BEGINS - 1),
        "alone": counted(at=BEGINS),
        "later": counted(at=ENDS),
    }
    rows = compare(records, counts)
    assert [(row.id, row.finding) for row in rows] == [("alone", "not billed"), ("first", "agrees")]


def test_in_a_pools_sum_too_much_does_not_make_up_for_too_little() -> None:
    records = [billed("a", output=30), billed("b", output=20), billed("c", pool="small", replica="small-0")]
    rows = compare(records, {"a": counted(), "b": counted(), "c": counted(log="small-0")}, {LOG: 0.0, "small-0": 0.0})
    large, small = by_pool(rows, 0.0)
    assert (large.pool, large.requests, large.drifting, large.flagged) == ("large", 2, 2, True)
    assert large.engine == large.billed == used(200, 80, 50)
    assert large.astray == used(0, 0, 10)
    assert (small.pool, small.drifting, small.flagged) == ("small", 0, False)
    assert by_pool(rows, 0.2)[0].flagged is False


def test_what_was_not_compared_is_in_no_sum() -> None:
    rows = compare([billed("a", counted="estimated"), billed("b", replica=None)], {})
    assert by_pool(rows, 0.0) == []
