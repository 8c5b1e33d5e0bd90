"""What one request has used."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import msgspec

from forebay.engine.request import Ending, GenerationEnd, GenerationUpdate
from forebay.web.disconnect import DisconnectError


class GenerationMeter:
    """Watches one generation (an engine's `GenerationWatcher`)."""

    def __init__(self, on_ended: Callable[[], None], *, counts_prompt: bool) -> None:
        self._on_ended = on_ended
        self.counts_prompt = counts_prompt
        """False for a further answer to a prompt, which counts once."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.ending: Ending | None = None

    def told(self, update: GenerationUpdate) -> None:
        self._note(update)

    def ended(self, end: GenerationEnd | None) -> None:
        if end is not None:
            self._note(end)
        self.ending = "error" if end is None else end.ending
        self._on_ended()

    def _note(self, counts: GenerationUpdate | GenerationEnd) -> None:
        self.prompt_tokens = counts.prompt_tokens
        self.cached_tokens = counts.cached_tokens
        self.completion_tokens = counts.completion_tokens


class BookedUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What `GET /v1/requests/{id}/usage` tells. `finish_reason` is null until the request has `ended`."""

    request_id: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    finish_reason: Ending | None
    ended: bool


class RequestUsage:
    """The generations of one request, as its `usage` sums them up: so far, and after it has ended for good.

    It has ended once its answer is over and the engine has told of each of its generations what came of it. `on_ended`
    is called then, once.
    """

    def __init__(self, request_id: str, on_ended: Callable[["RequestUsage"], None]) -> None:
        self.request_id = request_id
        self._on_ended = on_ended
        self._meters: list[GenerationMeter] = []
        self._num_expected = 0
        self._counts_output = True
        self._answered = False
        self._failed = False
        self._has_ended = asyncio.Event()

    def expect(self, num_generations: int, *, counts_output: bool = True) -> None:
        """So many are to be run. Where it was asked for no output, the token that each generates is not counted."""
        self._num_expected = num_generations
        self._counts_output = counts_output

    def meter(self, *, counts_prompt: bool) -> GenerationMeter:
        """For a generation that begins now."""
        meter = GenerationMeter(self._end_if_over, counts_prompt=counts_prompt)
        self._meters.append(meter)
        return meter

    @contextmanager
    def answering(self) -> Generator[None]:
        """When this is left, the answer is over."""
        try:
            yield
        except DisconnectError:
            raise
        except Exception:
            self._failed = True
            raise
        finally:
            self._answered = True
            self._end_if_over()

    def _end_if_over(self) -> None:
        over = self._answered and all(meter.ending is not None for meter in self._meters)
        if over and not self._has_ended.is_set():
            self._has_ended.set()
            self._on_ended(self)

    async def until_ended(self, timeout_s: float) -> None:
        """Wait for its end, so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._has_ended.wait()

    @property
    def so_far(self) -> BookedUsage:
        ended = self._has_ended.is_set()
        return BookedUsage(
            request_id=self.request_id,
            prompt_tokens=sum(meter.prompt_tokens for meter in self._meters if meter.counts_prompt),
            cached_tokens=sum(meter.cached_tokens for meter in self._meters if meter.counts_prompt),
            completion_tokens=sum(meter.completion_tokens for meter in self._meters) if self._counts_output else 0,
            finish_reason=self._finish_reason() if ended else None,
            ended=ended,
        )

    def _finish_reason(self) -> Ending:
        """Of several generations the one that says most."""
        endings = {meter.ending for meter in self._meters}
        if self._failed or "error" in endings:
            return "error"
        if "abort" in endings or len(self._meters) < max(self._num_expected, 1):
            return "abort"
        return "length" if "length" in endings else "stop"
