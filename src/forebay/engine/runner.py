"""What the engine needs of whatever computes the model: the whole contract."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class RunnerCapacity:
    """What a runner can hold: `num_blocks` blocks of `block_size` token slots, of `bytes_per_block` bytes each."""

    num_blocks: int
    block_size: int
    bytes_per_block: int
    vocab_size: int


@dataclass(frozen=True, slots=True)
class SequenceSlice:
    """The tokens that one sequence brings to a step.

    `token_ids` stand at positions `start`, `start + 1`, … of the sequence, whose KV slots are those of `block_table`
    (position p in slot p % block_size of block p // block_size). `num_sampled` asks for the logits of so many of the
    last of them, divided by `temperature` where that is above 0.
    """

    token_ids: Sequence[int]
    start: int
    block_table: Sequence[int]
    num_sampled: int
    temperature: float


@dataclass(frozen=True, slots=True)
class StepLogits:
    """For each sampled token of the step, in order (r rows): the distribution of the token after it.

    `logits` are raw, float32 [r, vocab]. `top_values` and `top_ids` are the K largest of logits / temperature, in
    falling order, [r, K]; `log_normaliser` is logsumexp(logits / temperature), [r]. All are valid until the next `run`.
    """

    logits: npt.NDArray[np.float32]
    top_values: npt.NDArray[np.float32]
    top_ids: npt.NDArray[np.int32]
    log_normaliser: npt.NDArray[np.float32]

    def take(self, rows: Sequence[int]) -> "StepLogits":
        """A copy of some of its rows."""
        chosen = list(rows)
        return StepLogits(
            self.logits[chosen], self.top_values[chosen], self.top_ids[chosen], self.log_normaliser[chosen]
        )


HostBlocks = list[npt.NDArray[np.generic]]
"""The content of some blocks, held in host memory: one array per KV tensor, first axis = block."""


class ModelRunner(Protocol):
    """Computes steps over KV blocks that its caller owns."""

    @property
    def capacity(self) -> RunnerCapacity: ...

    def run(self, slices: Sequence[SequenceSlice]) -> StepLogits:
        """Write the slices' tokens into their slots and return the logits asked for."""
        ...

    def copy_out(self, blocks: Sequence[int]) -> HostBlocks:
        """The content of `blocks`."""
        ...

    def copy_in(self, saved: HostBlocks, rows: Sequence[int], blocks: Sequence[int]) -> None:
        """Write the saved blocks `rows` into `blocks`, pairwise."""
        ...

    def close(self) -> None:
        """Give back the memory."""
        ...
