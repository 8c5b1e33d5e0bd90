"""How what was opened becomes what is billed."""

from forebay.metering.pricing import cost_nanos
from forebay.metering.usage import NOTHING, Counted, OpenedUsage, TokenUsage, UsageRecord, UsageStatus

LOST_STATUS = 500
"""What is noted as the HTTP status of a request whose process died: nobody saw how it ended."""


def closed(
    opened: OpenedUsage,
    tokens: TokenUsage,
    *,
    ended_at: float,
    status: UsageStatus,
    http_status: int,
    counted: Counted,
    replica: str | None = None,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    queue_wait_s: float | None = None,
) -> UsageRecord:
    """The record of a request that ended at `ended_at` (Unix seconds) having used `tokens`, by the prices that it was
    opened with. More cached than prompt tokens, as an engine may tell, count as all of the prompt.
    """
    return UsageRecord(
        id=opened.id,
        request_id=opened.request_id,
        tenant=opened.tenant,
        key=opened.key,
        tags=opened.tags,
        alias=opened.alias,
        model_version=opened.model_version,
        pool=opened.pool,
        replica=replica if replica is not None else opened.replica,
        priority=opened.priority,
        route=opened.route,
        stream=opened.stream,
        opened_at=opened.opened_at,
        ended_at=max(ended_at, opened.opened_at),
        status=status,
        http_status=http_status,
        counted=counted,
        prompt_tokens=tokens.prompt_tokens,
        cached_tokens=min(tokens.cached_tokens, tokens.prompt_tokens),
        output_tokens=tokens.output_tokens,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        queue_wait_s=queue_wait_s,
        fallback=opened.fallback,
        price_version=opened.price_version,
        cost_nanos=cost_nanos(opened, tokens),
        idempotency_hash=opened.idempotency_hash,
    )


def recovered(opened: OpenedUsage, seen: TokenUsage | None, replica: str | None, now: float) -> UsageRecord:
    """The record of a request whose process died: what was last seen of it is billed, and nothing where nothing was."""
    return closed(
        opened,
        seen or NOTHING,
        ended_at=now,
        status="recovered",
        http_status=LOST_STATUS,
        counted="last_seen",
        replica=replica,
    )
