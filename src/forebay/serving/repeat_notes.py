"""What is noted of requests with an `Idempotency-Key`: that they run, and what became of them."""

from collections.abc import Sequence

import structlog

from forebay.core.errors import StoreUnavailable
from forebay.core.money import usd_text
from forebay.metering.usage import OpenedUsage, UsageRecord
from forebay.serving.repeat_book import BilledUsage, FirstRequest, RepeatBook
from forebay.serving.request import InferenceRequest, Repeat

logger = structlog.get_logger(__name__)

LONGEST_RUN_S = 3600.0
"""After so long, a run whose end was never noted counts as interrupted."""


def running_since(request: InferenceRequest, repeat: Repeat, now: float) -> FirstRequest:
    """`request` as the first with its key. `now` in Unix seconds."""
    return FirstRequest(
        request_id=request.request_id,
        fingerprint=repeat.fingerprint,
        state="running",
        alive_until=now + LONGEST_RUN_S,
    )


def ended_with(record: UsageRecord, fingerprint: str) -> FirstRequest:
    """What is known of a first request that has ended."""
    usage = BilledUsage(
        prompt_tokens=record.prompt_tokens,
        cached_tokens=record.cached_tokens,
        completion_tokens=record.output_tokens,
        cost_usd=usd_text(record.cost_nanos),
    )
    return FirstRequest(
        request_id=record.request_id,
        fingerprint=fingerprint,
        state="ended",
        alive_until=record.ended_at,
        usage=usage,
    )


class RepeatNotes:
    """Notes the end of each. Fits `RunObserver`."""

    def __init__(self, book: RepeatBook, ttl_s: float) -> None:
        self._book = book
        self._ttl_s = ttl_s

    async def ended(self, request: InferenceRequest, record: UsageRecord | None) -> None:
        """One that was turned away, or that failed without using anything, may be sent again with its key."""
        if request.repeat is None:
            return
        try:
            if record is None or (record.status == "failed" and not record.prompt_tokens + record.output_tokens):
                await self._book.release(request.repeat.digest)
            else:
                ended = ended_with(record, request.repeat.fingerprint)
                await self._book.write(request.repeat.digest, ended, self._ttl_s)
        except StoreUnavailable as error:
            # It stays as running, which lets nobody run it again.
            logger.warning("end of an idempotent request not noted", id=request.id, detail=error.detail)

    async def interrupted(self, left: Sequence[OpenedUsage]) -> None:
        """Requests that were running when their process died: where nothing is known of them, that they are over.
        Raises StoreUnavailable.
        """
        for opened in left:
            if opened.idempotency_hash is not None:
                first = FirstRequest(
                    request_id=opened.request_id, fingerprint="", state="running", alive_until=opened.opened_at
                )
                await self._book.claim(opened.idempotency_hash, first, self._ttl_s)

    async def recall(self, records: list[UsageRecord]) -> None:
        """What the usage books say of requests that ended before this process began. Raises StoreUnavailable."""
        for record in records:
            if record.idempotency_hash is not None:
                await self._book.write(record.idempotency_hash, ended_with(record, ""), self._ttl_s)
