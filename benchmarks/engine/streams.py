"""One measured generation, and what every engine must offer to be measured."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Generation:
    """What to generate: exactly `output_tokens` tokens, greedily, past any end token. `priority`: lower goes first."""

    prompt: tuple[int, ...]
    output_tokens: int
    priority: int = 0


@dataclass(slots=True)
class StreamRecord:
    """What one generation was seen to do. Times are seconds of `time.monotonic()`.

    `chunk_times` has one entry for each piece of output that arrived; a piece may hold several tokens. The token counts
    are the engine's own, None until it gives them at the end of the stream.
    """

    due: float
    """When it was meant to start; waiting for the client counts as the engine's time."""
    chunk_times: list[float] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def finished(self) -> bool:
        return self.output_tokens is not None

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token; None where none came."""
        return self.chunk_times[0] - self.due if self.chunk_times else None

    @property
    def tpot_s(self) -> float | None:
        """Mean time from one token to the next; None for less than two tokens or an unfinished stream."""
        if self.output_tokens is None or self.output_tokens < 2 or not self.chunk_times:
            return None
        return (self.chunk_times[-1] - self.chunk_times[0]) / (self.output_tokens - 1)


class Endpoint(Protocol):
    """A running engine."""

    async def generate(self, generation: Generation, record: StreamRecord) -> None:
        """Run one generation, filling `record` as its output comes; cancelling the task aborts it.

        Raises PeerFailedError when the engine refuses, or gives another number of tokens than was asked for.
        """
        ...
