"""Draw from a whole row, where its candidates do not decide."""

import numpy as np
import numpy.typing as npt

from forebay.engine.sampling.arrays import Floats, Ints, places_in
from forebay.engine.sampling.candidates import Candidates
from forebay.engine.sampling.choose import choose, is_restricted
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.gumbel import TAIL, gumbel, words_of
from forebay.engine.sampling.mask import allowed_ids

_WIDER = 2048
"""Candidates of the first attempt: partitioning them off takes a tenth of sorting a whole row."""


def draw_from_row(
    row: Floats, draw: Draw, *, known_ids: Ints, edited: tuple[Ints, Floats] | None, log_mass: float | None
) -> int | None:
    """Draw from the raw logits `row` [vocab]; None where no token is allowed.

    `known_ids` are the candidates that did not decide. `edited` are tokens and what their logits are changed to, over
    temperature. `log_mass` is logsumexp(row / temperature) where the row is drawn from as it is.
    """
    ids, values = _allowed(row, draw, edited)
    if not ids.size:
        return None
    if draw.params.temperature == 0:
        return int(ids[np.argmax(values)])
    if is_restricted(draw.params, row.size):
        log_mass = _log_sum_exp(values) if log_mass is None else log_mass
        return _draw_restricted(ids, values, draw, log_mass=log_mass, vocab_size=row.size)
    is_known = np.zeros(row.size, dtype=np.bool_)
    is_known[known_ids] = True
    return _draw_with_tail(ids, values, draw, is_known[ids])


def _allowed(row: Floats, draw: Draw, edited: tuple[Ints, Floats] | None) -> tuple[Ints, Floats]:
    """The tokens that may be drawn and their logits, edited and over temperature."""
    temperature = draw.params.temperature or 1.0
    ids = np.arange(row.size) if draw.mask is None else allowed_ids(draw.mask)
    values = (row if draw.mask is None else row[ids]).astype(np.float64) / temperature
    if edited is not None:
        places, here = places_in(ids, edited[0])
        values[places[here]] = edited[1][here]
    possible = values > -np.inf
    return (ids, values) if possible.all() else (ids[possible], values[possible])


def _draw_with_tail(ids: Ints, values: Floats, draw: Draw, is_known: npt.NDArray[np.bool_]) -> int:
    """Let the known tokens and the tail as a whole compete, and if it wins, the tokens of the tail among themselves."""
    words = words_of([draw])
    best_known, best = -1, -np.inf
    if is_known.any():
        sums = values[is_known] + gumbel(words, ids[is_known].astype(np.uint64))
        best_known, best = int(ids[is_known][np.argmax(sums)]), float(sums.max())
    tail_ids, tail_values = ids[~is_known], values[~is_known]
    if not tail_ids.size or _log_sum_exp(tail_values) + float(gumbel(words, np.array([TAIL]))[0]) <= best:
        return best_known
    return int(tail_ids[np.argmax(tail_values + gumbel(words, tail_ids.astype(np.uint64)))])


def _draw_restricted(ids: Ints, values: Floats, draw: Draw, *, log_mass: float, vocab_size: int) -> int:
    """Draw among the likeliest of `ids`, as many as the restrictions leave."""
    for width in (_WIDER, ids.size):
        wide = np.argpartition(-values, width)[:width] if width < ids.size else np.arange(ids.size)
        wide = wide[np.argsort(-values[wide], kind="stable")]
        candidates = Candidates.of_row(ids[wide], values[wide], log_mass, complete=width >= ids.size)
        ranks, decided = choose(candidates, [draw], vocab_size)
        if decided[0]:
            break
    return int(ids[wide[ranks[0]]])


def _log_sum_exp(values: Floats) -> float:
    largest = values.max()
    # float32 is exact enough for each term, and several times as fast.
    terms = np.exp((values - largest).astype(np.float32))
    return float(largest + np.log(terms.sum(dtype=np.float64)))
