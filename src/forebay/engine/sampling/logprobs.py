"""Log-probabilities to tell: the model's own, whatever the sampling makes of them."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from forebay.engine.request import TokenLogprob
from forebay.engine.runner import StepLogits
from forebay.engine.sampling.arrays import Floats, Ints

_CHUNK = 16_384
"""Logits looked at together: few enough to stay in a core's own cache."""


def token_logprobs(
    logits: StepLogits,
    rows: Sequence[int],
    token_ids: Sequence[int],
    counts: Sequence[int],
    temperatures: Sequence[float],
) -> list[TokenLogprob]:
    """For each of n (row, token, count): the token's log-probability and those of the row's `count` likeliest tokens.

    `temperatures` are those at which the rows were computed, as `SequenceSlice` has them. A count above K, the width of
    `logits.top_ids`, is K.
    """
    if not rows:
        return []
    wanted = np.asarray(rows, dtype=np.int64)
    normaliser = _raw_normaliser(logits, wanted, np.asarray(temperatures, dtype=np.float64))
    own = logits.logits[wanted, np.asarray(token_ids, dtype=np.int64)] - normaliser
    top_ids = logits.top_ids[wanted, : max(counts)]
    top = logits.logits[wanted[:, None], top_ids] - normaliser[:, None]
    return [
        TokenLogprob(token, logprob, tuple(zip(ids[:count], values[:count], strict=True)))
        for token, logprob, count, ids, values in zip(
            token_ids, own.tolist(), counts, top_ids.tolist(), top.tolist(), strict=True
        )
    ]


def _raw_normaliser(logits: StepLogits, rows: Ints, temperatures: Floats) -> Floats:
    """logsumexp of the raw logits of `rows` [n], float64 [n]; at temperatures 0 and 1 the graph computed just that."""
    normaliser = logits.log_normaliser[rows].astype(np.float64)
    for index in np.flatnonzero((temperatures != 0) & (temperatures != 1)).tolist():
        row = logits.logits[rows[index]]
        largest = row[logits.top_ids[rows[index], 0]]
        total = sum(_sum_of_exp(row[start : start + _CHUNK] - largest) for start in range(0, row.size, _CHUNK))
        normaliser[index] = float(largest) + math.log(total)
    return normaliser


def _sum_of_exp(scratch: npt.NDArray[np.float32]) -> float:
    """Of the exponents in `scratch`, which is overwritten."""
    return float(np.exp(scratch, out=scratch).sum(dtype=np.float64))
