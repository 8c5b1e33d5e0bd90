"""What the load generator is told, and what it tells; both travel as JSON. Times in seconds."""

from typing import Literal

import msgspec

Mode = Literal["closed", "open", "streams"]
Arrivals = Literal["poisson", "even"]


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One load on one server.

    `closed`: `connections` callers, each sending its next request when it has its answer. `open`: `arrivals` at `rate`
    a second, whatever is still running. `streams`: `connections` callers that each read one stream after the
    other, their first ones beginning within `spread_s`; each stream must bring `chunks` pieces.
    """

    mode: Mode
    port: int
    headers: dict[str, str]
    bodies: list[str]
    """JSON texts, taken in turn."""
    duration_s: float
    """How long new requests are begun; those that run are still waited for."""
    connections: int
    rate: float = 0.0
    arrivals: Arrivals = "poisson"
    chunks: int = 0
    spread_s: float = 0.0
    seed: int = 1


class LoadResult(msgspec.Struct, kw_only=True):
    """What was seen. The lists have one entry for each good request (`ttft_s` too), piece or pair of pieces."""

    elapsed_s: float = 0.0
    """From the first request to the last answer."""
    good: int = 0
    pieces: int = 0
    errors: dict[str, int] = {}
    """Reason → count."""
    latencies_s: list[float] = []
    lateness_s: list[float] = []
    """How late each request of an open load was sent."""
    ttft_s: list[float] = []
    gaps_s: list[float] = []
    """Between two pieces of one stream, as they arrived."""
    delays_s: list[float] = []
    """From the moment in which the upstream wrote a piece to its arrival."""
    cpu_s: float = 0.0
    """The load generator's own."""

    @property
    def failed(self) -> int:
        return sum(self.errors.values())
