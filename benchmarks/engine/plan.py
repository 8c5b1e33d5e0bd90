"""How much is measured, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.engine.workloads import Mixed, SharedPrefix, Throughput

Kind = Literal["throughput", "mixed", "prefix"]
KINDS: tuple[Kind, ...] = ("throughput", "mixed", "prefix")

INTERACTIVE_PROMPTS = (50, 200, 1500)
"""Prompt lengths of the mixed load; the bar is for 200 and more, 50 is reported."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`arrivals` are those of our engine in the mixed load, `peer_arrivals` those of the others, which have no bar."""

    streams: Sequence[int] = (1, 4, 8, 16, 32)
    requests_per_stream: int = 2
    rounds: int = 3
    interactive_prompts: Sequence[int] = INTERACTIVE_PROMPTS
    arrivals: int = 300
    peer_arrivals: int = 60
    arrivals_per_segment: int = 30
    prefix_pairs: int = 15
    batch_alone_s: float = 30.0
    kinds: Sequence[Kind] = field(default=KINDS)
    seed: int = 1

    def throughput(self) -> list[Throughput]:
        """One stream alone gets more requests: one after the other they take little time and vary most."""
        return [
            Throughput(streams=count, requests=self.requests_per_stream * (3 if count == 1 else 1))
            for count in self.streams
        ]

    def mixed(self, *, ours: bool) -> list[Mixed]:
        arrivals = self.arrivals if ours else self.peer_arrivals
        lengths = self.interactive_prompts if ours else [n for n in self.interactive_prompts if n == 200]
        segments = max(1, round(arrivals / self.arrivals_per_segment))
        return [Mixed(prompt_tokens=length, arrivals=arrivals, segments=segments) for length in lengths]

    def prefix(self) -> SharedPrefix:
        return SharedPrefix(pairs=self.prefix_pairs)


QUICK = Plan(
    streams=(1, 4, 16),
    requests_per_stream=1,
    rounds=1,
    interactive_prompts=(200,),
    arrivals=12,
    peer_arrivals=6,
    arrivals_per_segment=6,
    prefix_pairs=3,
    batch_alone_s=5.0,
)
"""A few minutes: does everything run, and about how fast."""
