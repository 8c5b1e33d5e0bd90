"""The logits that bans, bias and penalties change: few of each row, so they are kept as flat lists.

The order is vLLM's: bans, bias, repetition, frequency and presence penalty, all on raw logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from forebay.engine.sampling.arrays import Bools, Floats, Ints
from forebay.engine.sampling.draw import Draw


@dataclass(frozen=True, slots=True)
class Edits:
    """The changed logits of some rows, [n] each: the row's index among them, the token, and its logit before and after,
    both divided by the row's temperature. A row has a token once at most."""

    rows: Ints
    ids: Ints
    before: Floats
    after: Floats

    @classmethod
    def of(cls, logits: Floats, rows: Ints, draws: Sequence[Draw], temperatures: Floats) -> "Edits":
        """The edits that `draws` [s] ask for in the rows `rows` [s] of the raw `logits` [r, vocab]."""
        causes = _Causes.of(draws, logits.shape[1])
        before = logits[rows[causes.rows], causes.ids].astype(np.float64)
        after = causes.applied_to(before, draws)
        scale = temperatures[causes.rows]
        return cls(causes.rows, causes.ids, before / scale, after / scale)

    def of_row(self, row: int) -> tuple[Ints, Floats]:
        """One row's edited tokens and what their logits have become."""
        here = self.rows == row
        return self.ids[here], self.after[here]


@dataclass(frozen=True, slots=True)
class _Causes:
    """Why tokens change, [n] each: row and token, how often it was generated, whether the repetition penalty has seen
    it (more than 0), its bias, and whether it is banned (more than 0)."""

    rows: Ints
    ids: Ints
    counts: Floats
    seen: Floats
    bias: Floats
    bans: Floats

    @classmethod
    def of(cls, draws: Sequence[Draw], vocab_size: int) -> "_Causes":
        ids, counts, num_counted = _counted(draws)
        bias_ids, bias, num_biased = _biased(draws)
        banned = np.array([*chain.from_iterable(draw.banned for draw in draws)], dtype=np.int64)
        num_banned = np.array([len(draw.banned) for draw in draws])
        all_ids = np.concatenate([ids, bias_ids, banned])
        rows = np.concatenate([np.repeat(np.arange(len(draws)), n) for n in (num_counted, num_biased, num_banned)])
        sizes = (ids.size, bias_ids.size, banned.size)
        causes = cls(
            rows=rows,
            ids=all_ids,
            counts=_column(sizes, 0, counts),
            seen=_column(sizes, 0, 1.0),
            bias=_column(sizes, 1, bias),
            bans=_column(sizes, 2, 1.0),
        )
        # One kind of cause has each token once. Whether a row is merged must depend on that row alone.
        mixed = ((num_counted > 0) & (num_biased > 0)) | (num_banned > 0)
        known = (all_ids >= 0) & (all_ids < vocab_size)
        if not mixed.any():
            return causes if known.all() else causes.where(known)
        several = mixed[rows]
        return causes.where(known & ~several).followed_by(causes.where(known & several).merged(vocab_size))

    def where(self, chosen: Bools) -> "_Causes":
        return _Causes(
            self.rows[chosen],
            self.ids[chosen],
            self.counts[chosen],
            self.seen[chosen],
            self.bias[chosen],
            self.bans[chosen],
        )

    def followed_by(self, other: "_Causes") -> "_Causes":
        return _Causes(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.seen, other.seen]),
            np.concatenate([self.bias, other.bias]),
            np.concatenate([self.bans, other.bans]),
        )

    def merged(self, vocab_size: int) -> "_Causes":
        """The same with each token once: its causes added up."""
        keys, places = np.unique(self.rows * vocab_size + self.ids, return_inverse=True)

        def total(column: Floats) -> Floats:
            return np.bincount(places, weights=column, minlength=keys.size).astype(np.float64)

        rows, ids = np.divmod(keys, vocab_size)
        return _Causes(rows, ids, total(self.counts), total(self.seen), total(self.bias), total(self.bans))

    def applied_to(self, logits: Floats, draws: Sequence[Draw]) -> Floats:
        """The raw `logits` [n] of the tokens, changed."""
        repetition = np.array([draw.params.repetition_penalty for draw in draws])[self.rows]
        frequency = np.array([draw.params.frequency_penalty for draw in draws])[self.rows]
        presence = np.array([draw.params.presence_penalty for draw in draws])[self.rows]
        changed = np.where(self.bans > 0, -np.inf, logits + self.bias)
        repeated = np.where(changed > 0, changed / repetition, changed * repetition)
        changed = np.where(self.seen > 0, repeated, changed)
        return changed - frequency * self.counts - presence * (self.counts > 0)


def _counted(draws: Sequence[Draw]) -> tuple[Ints, Ints, Ints]:
    """The tokens that penalties look at, row after row, how often each was generated, and how many a row has."""
    pasts = [
        draw.history.seen if draw.params.repetition_penalty != 1 else draw.history.generated
        for draw in draws
        if draw.history is not None
    ]
    lengths = np.zeros(len(draws), dtype=np.int64)
    lengths[[draw.history is not None for draw in draws]] = [ids.size for ids, _ in pasts]
    nothing = np.zeros(0, dtype=np.int64)
    return (
        np.concatenate([nothing, *(ids for ids, _ in pasts)]),
        np.concatenate([nothing, *(counts for _, counts in pasts)]),
        lengths,
    )


def _biased(draws: Sequence[Draw]) -> tuple[Ints, Floats, Ints]:
    """The tokens of each `logit_bias`, row after row, their biases, and how many a row has."""
    pairs = np.array([*chain.from_iterable(draw.params.logit_bias for draw in draws)], dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0].astype(np.int64), pairs[:, 1], np.array([len(draw.params.logit_bias) for draw in draws])


def _column(sizes: tuple[int, int, int], part: int, values: Floats | Ints | float) -> Floats:
    """`values` in one of the three parts, which have these sizes, and 0 in the others."""
    column = np.zeros(sum(sizes))
    start = sum(sizes[:part])
    column[start : start + sizes[part]] = values
    return column
