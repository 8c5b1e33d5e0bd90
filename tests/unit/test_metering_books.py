"""Closing: no store in sight."""

from forebay.metering.closing import closed, recovered
from forebay.metering.usage import OpenedUsage, TokenUsage

MIDNIGHT = 1_764_547_200.0
"""2025-12-01 00:00 UTC."""
OPENED = OpenedUsage(
    id="u1",
    request_id="chatcmpl-1",
    tenant="acme",
    key="k",
    tags={"team": "search"},
    alias="assistant",
    model_version="m@1",
    pool="large",
    priority="batch",
    route="/v1/chat/completions",
    stream=True,
    opened_at=MIDNIGHT,
    prompt_tokens=10,
    fallback=True,
    price_version="p1",
    prompt_nanos_per_million=3_000_000,
    cached_nanos_per_million=1_000_000,
    output_nanos_per_million=10_500_000,
    idempotency_hash="h",
    replica="r0",
)


def used(prompt: int, cached: int, output: int) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, cached_tokens=cached, output_tokens=output)


def test_a_closed_record_carries_all_of_the_opened_and_its_cost():
    record = closed(
        OPENED, used(10, 4, 3), ended_at=MIDNIGHT + 1, status="completed", http_status=200, counted="engine"
    )
    # 6 × 3 + 4 × 1 + 3 × 10.5 = 53.5, of which the half goes up.
    assert record.cost_nanos == 54
    for field in ("id", "request_id", "tenant", "key", "tags", "alias", "model_version", "pool", "priority", "route"):
        assert getattr(record, field) == getattr(OPENED, field)
    assert (record.stream, record.fallback, record.price_version) == (True, True, "p1")
    assert (record.idempotency_hash, record.replica) == ("h", "r0")


def test_more_cached_than_prompt_tokens_are_not_believed():
    record = closed(OPENED, used(10, 40, 0), ended_at=MIDNIGHT, status="completed", http_status=200, counted="engine")
    assert (record.cached_tokens, record.cost_nanos) == (10, 10)


def test_a_clock_that_was_set_back_makes_no_record_end_before_it_began():
    record = closed(OPENED, used(1, 0, 0), ended_at=MIDNIGHT - 60, status="failed", http_status=502, counted="engine")
    assert record.ended_at == MIDNIGHT


def test_what_was_last_seen_of_a_lost_request_is_billed_and_nothing_where_nothing_was():
    seen = recovered(OPENED, used(10, 0, 2), "r7", MIDNIGHT + 60)
    assert (seen.status, seen.counted, seen.replica, seen.cost_nanos) == ("recovered", "last_seen", "r7", 51)
    unseen = recovered(OPENED, None, None, MIDNIGHT + 60)
    assert (unseen.prompt_tokens, unseen.cost_nanos, unseen.replica) == (0, 0, "r0")
