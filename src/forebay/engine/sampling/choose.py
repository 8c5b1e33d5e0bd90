"""Draw among the candidates of some rows, as far as these decide."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forebay.engine.request import SamplingParams
from forebay.engine.sampling.arrays import Bools, Floats, Ints
from forebay.engine.sampling.candidates import Candidates
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.gumbel import TAIL, gumbel, words_of


def is_restricted(params: SamplingParams, vocab_size: int) -> bool:
    """Whether only some of the likeliest tokens may be drawn."""
    return 0 < params.top_k < vocab_size or params.top_p < 1 or params.min_p > 0


def choose(candidates: Candidates, draws: Sequence[Draw], vocab_size: int) -> tuple[Ints, Bools]:
    """The drawn rank of each row and whether the candidates decide it, [r] each.

    Whether any token may be drawn at all is the caller's to see: a row that has no candidate has rank 0.
    """
    restricted = np.array([is_restricted(draw.params, vocab_size) for draw in draws], dtype=np.bool_)
    prefix = _prefix(candidates, draws, vocab_size)
    words = words_of(draws)
    drawable = np.arange(candidates.ids.shape[1]) < prefix.lengths[:, None]
    sums = np.where(
        drawable, candidates.log_weights + gumbel(words[:, None], candidates.ids.astype(np.uint64)), -np.inf
    )
    ranks = np.argmax(sums, axis=1)
    best = np.take_along_axis(sums, ranks[:, None], axis=1)[:, 0]
    tail = candidates.log_tail + gumbel(words, np.broadcast_to(TAIL, words.shape))
    tail_loses = ~restricted & (tail <= best) & (best > -np.inf)
    return ranks, candidates.complete | ~prefix.open | tail_loses


@dataclass(frozen=True, slots=True)
class _Prefix:
    """How many of each row's candidates the restrictions leave, and whether they may leave some of the tail, [r]."""

    lengths: Ints
    open: Bools


def _prefix(candidates: Candidates, draws: Sequence[Draw], vocab_size: int) -> _Prefix:
    """In vLLM's order: `min_p`, `top_k`, and `top_p` of the mass that these left."""
    prefix = _Prefix(np.sum(candidates.log_weights > -np.inf, axis=1), ~candidates.complete)
    min_p = np.array([draw.params.min_p for draw in draws])
    if min_p.any():
        prefix = _with_min_p(prefix, candidates, min_p)
    top_k = np.array([draw.params.top_k if 0 < draw.params.top_k < vocab_size else vocab_size for draw in draws])
    closed = prefix.open & (top_k <= prefix.lengths)
    narrowed = prefix.open & ((top_k < vocab_size) | (min_p > 0))
    prefix = _Prefix(np.minimum(prefix.lengths, top_k), prefix.open & ~closed)
    top_p = np.array([draw.params.top_p for draw in draws])
    return _with_top_p(prefix, candidates, top_p, narrowed) if np.any(top_p < 1) else prefix


def _with_min_p(prefix: _Prefix, candidates: Candidates, min_p: Floats) -> _Prefix:
    with np.errstate(divide="ignore"):
        threshold = candidates.log_weights[:, 0] + np.log(min_p)
    lengths = np.minimum(prefix.lengths, np.sum(candidates.log_weights >= threshold[:, None], axis=1))
    cut = (lengths < prefix.lengths) | (threshold > candidates.log_floor)
    return _Prefix(lengths, prefix.open & ~cut)


def _with_top_p(prefix: _Prefix, candidates: Candidates, top_p: Floats, narrowed: Bools) -> _Prefix:
    """`narrowed` rows are those of whose tail something else may have left a part."""
    last = np.maximum(prefix.lengths - 1, 0)
    known = np.take_along_axis(candidates.cumulative, last[:, None], axis=1)[:, 0]
    low = np.where(prefix.open & ~narrowed, candidates.mass_low, known)
    high = np.where(prefix.open, candidates.mass_high, known)
    shortest, longest = (np.sum(candidates.cumulative < (top_p * m)[:, None], axis=1) + 1 for m in (low, high))
    decided = ~prefix.open | ((shortest == longest) & (longest <= prefix.lengths))
    # top_p 1 must not lose a token to the rounding of the sum.
    limits = top_p < 1
    return _Prefix(
        np.where(limits & decided, np.minimum(shortest, prefix.lengths), prefix.lengths),
        np.where(limits, ~decided, prefix.open),
    )
