"""What the last requests have used, by their ids."""

import asyncio
from collections import OrderedDict
from contextlib import suppress

import structlog

from forebay.core.clock import Clock
from forebay.replica.request_usage import RequestUsage

MAX_ENDED = 20_000
KEPT_S = 3600.0
"""How many requests that have ended are remembered, and for how long."""
ARRIVAL_S = 0.25
"""How long whoever waits for a request's end waits for one that is not known: it may still be on its way, on another
connection."""

logger = structlog.get_logger(__name__)


class UsageBook:
    """Knows every request that runs, and the last of those that have ended. Of two with one id it knows the later one.

    A line of the log says of each what it has come to.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[str, RequestUsage] = {}
        self._ended: OrderedDict[str, tuple[float, RequestUsage]] = OrderedDict()
        self._awaited: dict[str, asyncio.Event] = {}

    def open(self, request_id: str) -> RequestUsage:
        """A new request."""
        usage = RequestUsage(request_id, self._end)
        self._ended.pop(request_id, None)
        self._running[request_id] = usage
        if request_id in self._awaited:
            self._awaited[request_id].set()
        return usage

    async def ended(self, request_id: str, timeout_s: float) -> RequestUsage | None:
        """As `get`, once it has ended, or so much later."""
        usage = self.get(request_id)
        if usage is None and timeout_s > 0:
            await self._arrival(request_id, min(timeout_s, ARRIVAL_S))
            usage = self.get(request_id)
        if usage is not None:
            await usage.until_ended(timeout_s)
        return usage

    async def _arrival(self, request_id: str, timeout_s: float) -> None:
        arrived = self._awaited.setdefault(request_id, asyncio.Event())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await arrived.wait()
        finally:
            self._awaited.pop(request_id, None)

    def get(self, request_id: str) -> RequestUsage | None:
        """None where it is not known, or not any more."""
        self._forget_old()
        if request_id in self._running:
            return self._running[request_id]
        _, usage = self._ended.get(request_id, (0.0, None))
        return usage

    def _end(self, usage: RequestUsage) -> None:
        told = usage.so_far
        logger.info(
            "generated",
            request_id=told.request_id,
            prompt_tokens=told.prompt_tokens,
            cached_tokens=told.cached_tokens,
            completion_tokens=told.completion_tokens,
            finish_reason=told.finish_reason,
        )
        if self._running.get(usage.request_id) is usage:
            del self._running[usage.request_id]
            self._ended[usage.request_id] = (self._clock.now(), usage)
            self._forget_old()

    def _forget_old(self) -> None:
        before = self._clock.now() - KEPT_S
        while self._ended and (len(self._ended) > MAX_ENDED or next(iter(self._ended.values()))[0] < before):
            self._ended.popitem(last=False)
