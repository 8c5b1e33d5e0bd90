"""What one step does, and what it brought."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from forebay.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Slice:
    """`num_tokens` of a sequence's tokens, from `num_computed` on, run in this step, and after them the first
    `num_drafts` of its draft."""

    sequence: Sequence
    num_tokens: int
    num_drafts: int = 0

    @property
    def samples(self) -> bool:
        """Whether the step reaches the sequence's last known token, so that a next one can be drawn."""
        return self.num_tokens == self.sequence.num_behind


@dataclass(frozen=True, slots=True)
class Advance:
    """What a step brought a sequence: the tokens that follow its known ones, of which the first `num_verified` were
    drafts that it has computed already. No tokens at all: none could be drawn, and the step is to be repeated."""

    token_ids: Seq[int]
    num_verified: int = 0


@dataclass(frozen=True, slots=True)
class SwapOut:
    """Keep the content of `blocks` under the sequence."""

    sequence: Sequence
    blocks: list[int]


@dataclass(frozen=True, slots=True)
class SwapIn:
    """Write the sequence's kept blocks, from number `first_row` on, into `blocks`; then forget what was kept."""

    sequence: Sequence
    first_row: int
    blocks: list[int]


@dataclass(slots=True)
class StepPlan:
    """One step: first all of `swap_out`, then `swap_in`, then the slices."""

    swap_out: list[SwapOut] = field(default_factory=list[SwapOut])
    swap_in: list[SwapIn] = field(default_factory=list[SwapIn])
    slices: list[Slice] = field(default_factory=list[Slice])

    @property
    def num_tokens(self) -> int:
        """Known tokens that are run."""
        return sum(part.num_tokens for part in self.slices)
