"""Draw the next token of every row of a step at once.

A draw inverts the cumulative distribution over the tokens in falling order of probability, with one uniform number made
from (seed, position). So a sequence's draws depend on nothing but its own seed and logits, whatever else is in the
batch and however often it was preempted. The graph has sorted only the K likeliest tokens: a row whose draw may lie
beyond them is drawn again from more of its row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forebay.engine.request import SamplingParams
from forebay.engine.runner import StepLogits

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
_ALL_64_BITS = 2**64 - 1
_WIDER = 2048
"""Candidates of the second attempt: partitioning them off takes a tenth of sorting a whole row."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One row to draw: how, from which seed, and as which token of its sequence (0 is the first generated)."""

    params: SamplingParams
    seed: int
    position: int


def sample(logits: StepLogits, draws: Sequence[Draw]) -> list[int]:
    """One token id for each row of `logits`, in order."""
    chosen = logits.top_ids[:, 0].astype(np.int64)
    rows = np.array([i for i, draw in enumerate(draws) if draw.params.temperature > 0], dtype=np.intp)
    if rows.size:
        drawn = [draws[i] for i in rows]
        restriction = _Restriction.of(drawn)
        probabilities = np.exp(logits.top_values[rows] - logits.log_normaliser[rows, None])
        ranks, beyond = _invert(probabilities, restriction)
        chosen[rows] = logits.top_ids[rows, ranks]
        for index in np.flatnonzero(beyond):
            row = rows[index]
            chosen[row] = _sample_wider(logits.logits[row], float(logits.log_normaliser[row]), drawn[index])
    return [int(token) for token in chosen]


@dataclass(frozen=True, slots=True)
class _Restriction:
    """What limits each row's draw, [r] each. `top_k` 0 is no limit."""

    top_k: Ints
    top_p: Floats
    uniform: Floats

    @classmethod
    def of(cls, draws: Sequence[Draw]) -> "_Restriction":
        return cls(
            np.array([d.params.top_k for d in draws], dtype=np.int64),
            np.array([d.params.top_p for d in draws]),
            uniform(
                np.array([d.seed & _ALL_64_BITS for d in draws], dtype=np.uint64),
                np.array([d.position for d in draws], dtype=np.uint64),
            ),
        )


def _invert(probabilities: Floats, restriction: _Restriction) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The drawn rank of each row of probabilities (falling, [r, K]), and which rows need more than K to be drawn from.

    `top_k` is applied before `top_p`, whose share is of what `top_k` left, as vLLM does it.
    """
    width = probabilities.shape[1]
    cumulative = np.cumsum(probabilities, axis=1, dtype=np.float64)
    top_k = restriction.top_k
    limited = (top_k > 0) & (top_k <= width)
    last = np.where(limited, top_k, width) - 1
    mass = np.where(limited, np.take_along_axis(cumulative, last[:, None], axis=1)[:, 0], 1.0)
    nucleus_end = np.sum(cumulative < (restriction.top_p * mass)[:, None], axis=1)
    nucleus_end = np.minimum(nucleus_end, last)
    covered = np.take_along_axis(cumulative, nucleus_end[:, None], axis=1)[:, 0]
    unrestricted = (restriction.top_p >= 1) & ~limited & (top_k == 0)
    target = restriction.uniform * np.where(unrestricted, 1.0, covered)
    ranks = np.sum(cumulative <= target[:, None], axis=1)
    beyond = np.where(unrestricted, ranks >= width, ~limited & (covered < restriction.top_p))
    beyond |= top_k > width
    return np.minimum(ranks, nucleus_end), beyond


def _sample_wider(row: Floats, log_normaliser: float, draw: Draw) -> int:
    """A row [vocab] whose K candidates did not decide its draw: from more of them and, if need be, from all."""
    restriction = _Restriction.of([draw])
    scaled = row.astype(np.float64) / draw.params.temperature
    for width in (_WIDER, scaled.size):
        ids = np.argpartition(-scaled, width)[:width] if width < scaled.size else np.arange(scaled.size)
        ids = ids[np.argsort(-scaled[ids], kind="stable")]
        ranks, beyond = _invert(np.exp(scaled[ids] - log_normaliser)[None, :], restriction)
        if not beyond[0]:
            break
    # Rounding may leave the whole row a little short of 1: then the last rank that there is, is the draw.
    return int(ids[ranks[0]])


def uniform(seeds: Ints, positions: Ints) -> Floats:
    """A number in [0, 1) for each (seed, position): SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of the two."""
    with np.errstate(over="ignore"):
        z = _mix(seeds.astype(np.uint64)) + (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        return (_mix(z) >> np.uint64(11)) * 2.0**-53


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
