"""Draw the next token of every row of a step at once.

A draw adds to each allowed token's log-probability a Gumbel number made from (seed, position, token) and takes the
largest, which is a draw from the distribution (the Gumbel-max trick). The numbers are the same whatever else is in the
batch and however often a sequence was preempted, so a seed's output can only part where the two largest sums nearly
tie, as logits of one prompt differ in their last bits with the shape of the step.

The graph has sorted only the K likeliest tokens of a row. All others together stand as one more candidate, the tail:
only if it wins, or if a restriction reaches beyond the K, is the whole row looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forebay.engine.request import SamplingParams
from forebay.engine.runner import StepLogits

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
Words = npt.NDArray[np.uint64]

_ALL_64_BITS = 2**64 - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TAIL = np.uint64(2**40)
"""The tail's token id: none that a vocabulary has."""
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
        candidates = _Candidates(logits.top_ids[rows], logits.top_values[rows] - logits.log_normaliser[rows, None])
        ranks, undecided = _choose(candidates, drawn, vocab_size=logits.logits.shape[1])
        chosen[rows] = candidates.ids[np.arange(rows.size), ranks]
        for index in np.flatnonzero(undecided):
            row = rows[index]
            chosen[row] = _sample_row(
                logits.logits[row], float(logits.log_normaliser[row]), drawn[index], logits.top_ids[row]
            )
    return [int(token) for token in chosen]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The likeliest tokens of some rows and their log-probabilities, in falling order, [r, K] each."""

    ids: Ints
    log_probabilities: Floats


def _choose(candidates: _Candidates, draws: Sequence[Draw], vocab_size: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The drawn rank of each row, and the rows that the candidates do not decide, [r] each."""
    width = candidates.ids.shape[1]
    top_k = np.array([min(d.params.top_k, vocab_size) for d in draws])
    top_p = np.array([d.params.top_p for d in draws])
    cumulative = np.cumsum(np.exp(candidates.log_probabilities), axis=1, dtype=np.float64)
    allowed = _allowed(cumulative, top_k, top_p)
    unrestricted = (top_k == 0) & (top_p >= 1)
    words = _words(draws)
    sums = np.where(
        np.arange(width) < np.where(unrestricted, width, allowed)[:, None],
        candidates.log_probabilities + _gumbel(words[:, None], candidates.ids.astype(np.uint64)),
        -np.inf,
    )
    ranks = np.argmax(sums, axis=1)
    if width == vocab_size:
        return ranks, np.zeros(len(draws), dtype=np.bool_)
    with np.errstate(divide="ignore"):
        tail = np.log(np.maximum(1 - cumulative[:, -1], 0)) + _gumbel(words, np.broadcast_to(_TAIL, words.shape))
    return ranks, np.where(unrestricted, tail > sums.max(axis=1), allowed > width)


def _allowed(cumulative: Floats, top_k: Ints, top_p: Floats) -> Ints:
    """How many of each row's likeliest tokens may be drawn; more than there are candidates where those do not tell.

    `top_k` is applied before `top_p`, whose share is of what `top_k` left, as vLLM does it.
    """
    width = cumulative.shape[1]
    known_k = (top_k > 0) & (top_k <= width)
    last = np.where(known_k, top_k, width) - 1
    mass = np.where(known_k, np.take_along_axis(cumulative, last[:, None], axis=1)[:, 0], 1.0)
    # top_p 1 must not lose a token to the rounding of the sum.
    nucleus = np.where(top_p < 1, np.sum(cumulative < (top_p * mass)[:, None], axis=1) + 1, width + 1)
    return np.where(known_k, np.minimum(nucleus, top_k), np.where(top_k == 0, nucleus, width + 1))


def _sample_row(row: Floats, log_normaliser: float, draw: Draw, decided_ids: Ints) -> int:
    """Draw from a row [vocab] that its K candidates `decided_ids` did not decide."""
    log_probabilities = row.astype(np.float64) / draw.params.temperature - log_normaliser
    if draw.params.top_k == 0 and draw.params.top_p >= 1:
        sums = log_probabilities + _gumbel(_words([draw]), np.arange(row.size, dtype=np.uint64))
        sums[decided_ids] = -np.inf
        return int(np.argmax(sums))
    for width in (_WIDER, row.size):
        ids = np.argpartition(-log_probabilities, width)[:width] if width < row.size else np.arange(row.size)
        ids = ids[np.argsort(-log_probabilities[ids], kind="stable")]
        ranks, undecided = _choose(_Candidates(ids[None, :], log_probabilities[ids][None, :]), [draw], row.size)
        if not undecided[0]:
            break
    return int(ids[ranks[0]])


def _words(draws: Sequence[Draw]) -> Words:
    """One word for each (seed, position), [r]."""
    seeds = np.array([d.seed & _ALL_64_BITS for d in draws], dtype=np.uint64)
    positions = np.array([d.position for d in draws], dtype=np.uint64)
    return _mix(_mix(seeds) + (positions + np.uint64(1)) * _GOLDEN)


def _gumbel(words: Words, token_ids: Words) -> Floats:
    """A standard Gumbel number for each pair of word and token."""
    bits = _mix(words + (token_ids + np.uint64(1)) * _GOLDEN) >> np.uint64(11)
    return -np.log(-np.log((bits + 0.5) * 2.0**-53))


def _mix(z: Words) -> Words:
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
