"""An answer that has begun, under the name of the model that was asked for, and metered as it comes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from forebay.api.generation import Usage
from forebay.core.errors import UpstreamFailed
from forebay.fleet.replica import Endpoint
from forebay.metering.usage import TokenUsage
from forebay.serving.admission import Admitted
from forebay.serving.metered_run import Ending, MeteredRun
from forebay.serving.model_name import renamed
from forebay.serving.settler import Settler
from forebay.serving.stream_meter import StreamMeter, tokens_of

BYTES_PER_TOKEN = 4
"""Of an answer whose server tells no usage."""
TOKENS_AHEAD = 16
"""For each answer: how many may be on their way while more of the quota is taken."""


class ReplicaAnswer(Protocol):
    """A replica's good answer; see `fleet.upstream.UpstreamAnswer`."""

    async def whole(self) -> bytes: ...

    def events(self) -> AsyncGenerator[bytes]: ...


class _Told(msgspec.Struct):
    usage: Usage | None = None


_told = msgspec.json.Decoder(_Told)


class Answer:
    """One answer. `leave` ends the request at its replica."""

    def __init__(
        self,
        *,
        run: MeteredRun,
        admitted: Admitted,
        upstream: ReplicaAnswer,
        endpoint: Endpoint,
        settler: Settler,
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self._run = run
        self._admitted = admitted
        self._upstream = upstream
        self._settler = settler
        self._leave = leave
        self.endpoint = endpoint
        self.told: list[bytes] = []
        """What the caller was told, where its tenant has that kept."""

    @property
    def headers(self) -> Mapping[str, str]:
        """How the caller stands with its quotas."""
        return self._run.headers

    async def whole(self) -> bytes:
        """The JSON body. Raises UpstreamFailed."""
        body = renamed(await self._upstream.whole(), self._run.request.alias)
        try:
            usage = _told.decode(body).usage
        except (msgspec.DecodeError, RecursionError):
            usage = None
        await self._completed(tokens_of(usage) if usage is not None else None, len(body) // BYTES_PER_TOKEN)
        self._keep(body)
        return body

    async def events(self) -> AsyncGenerator[bytes]:
        """The event stream's bytes. Raises UpstreamFailed where the replica breaks off.

        The run is ended before the last of them: whoever has the whole answer may at once send the next request.
        """
        request, output = self._run.request, self._admitted.admissible.output
        meter = StreamMeter(request.alias if self.endpoint.model != request.alias else None, output.told_usage)
        async for chunk in self._upstream.events():
            told = meter.feed(chunk)
            self._progress(meter)
            if meter.failed:
                await self._run.end(
                    await self._settler.ending_of(self._run, self.endpoint, "failed", UpstreamFailed.status)
                )
            elif meter.ended:
                await self._completed(meter.tokens, meter.events)
            elif self._admitted.extends and not await self._is_covered(meter):
                told += await self._stop(meter)
            if told:
                self._keep(told)
                yield told
            if self._run.ended:
                return

    def _keep(self, told: bytes) -> None:
        if self._run.request.principal.log_content:
            self.told.append(told)

    def _progress(self, meter: StreamMeter) -> None:
        tokens = meter.tokens or self._estimated(meter.events)
        if tokens != self._run.tokens:
            self._run.progress(tokens)

    def _estimated(self, output_tokens: int) -> TokenUsage:
        return TokenUsage(prompt_tokens=self._run.prompt_tokens, cached_tokens=0, output_tokens=output_tokens)

    async def _completed(self, tokens: TokenUsage | None, estimated_output: int) -> None:
        if tokens is None:
            counted, tokens = "estimated", self._estimated(estimated_output)
        else:
            counted = "engine"
        await self._run.end(Ending(status="completed", http_status=200, tokens=tokens, counted=counted))

    async def _is_covered(self, meter: StreamMeter) -> bool:
        sized = self._admitted.admissible
        seen = (self._run.tokens or self._estimated(meter.events)).output_tokens
        needed = seen + TOKENS_AHEAD * sized.answers
        # It ends by itself there: nothing more has to be covered.
        if sized.output_room is not None:
            needed = min(needed, sized.output_room * sized.answers)
        return await self._run.covers(needed)

    async def _stop(self, meter: StreamMeter) -> bytes:
        """End it here, as its quota does not cover more; the events that say so."""
        await self._leave()
        await self._run.end(await self._settler.ending_of(self._run, self.endpoint, "stopped", 200))
        meter.tokens = self._run.tokens
        return meter.stopped(self._admitted.admissible.answers)
