"""Rows whose logits are edited or masked."""

from collections.abc import Sequence

import numpy as np

from forebay.engine.runner import StepLogits
from forebay.engine.sampling.arrays import Bools, Ints, bounded_exp, places_in
from forebay.engine.sampling.candidates import Candidates
from forebay.engine.sampling.choose import choose, is_restricted
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.edits import Edits
from forebay.engine.sampling.full_row import draw_from_row
from forebay.engine.sampling.known import Known
from forebay.engine.sampling.mask import allowed_ids

_MOST = 0.75
"""Of the vocabulary: where a mask allows more, what it does not allow is added up instead of what it does."""
_PRECISE = 20.0
"""The known allowed mass times this must reach the row's mass before, or a difference of masses says too little."""


class ChangedRows:
    """The rows `rows` [s] of a step, and what changes them."""

    def __init__(self, logits: StepLogits, rows: Ints, draws: Sequence[Draw]) -> None:
        self._logits = logits
        self._rows = rows
        self._draws = draws
        self._temperatures = np.array([draw.params.temperature or 1.0 for draw in draws])
        self._edits = Edits.of(logits.logits, rows, draws, self._temperatures)
        self._known = Known.of(logits, rows, draws, self._edits, self._temperatures)

    def draw(self) -> list[int | None]:
        """One token id for each row; None where no token is allowed."""
        everyone = np.arange(self._rows.size)
        best = np.argmax(self._known.allowed_values, axis=1)
        possible = self._known.allowed_values[everyone, best] > -np.inf
        decided = possible | (self._known.num_tail == 0)
        tokens: list[int | None] = self._known.ids[everyone, best].tolist()
        for index in np.flatnonzero(~possible & decided).tolist():
            tokens[index] = None
        for index in np.flatnonzero(~decided).tolist():
            tokens[index] = self._draw_from_row(index, self._known.ids[index, :0])
        random = possible & np.array([draw.params.temperature > 0 for draw in self._draws], dtype=np.bool_)
        if random.any():
            self._draw_random(np.flatnonzero(random), tokens)
        return tokens

    def _draw_random(self, indices: Ints, tokens: list[int | None]) -> None:
        """Draw for the rows `indices` [n], each of which has a candidate."""
        everyone = Candidates.of_changed(self._known, self._logits.log_normaliser[self._rows], self._edits)
        candidates = everyone.take(indices)
        ranks, decided = self._choose(candidates, indices)
        again = np.flatnonzero(~decided & self._hang_on_the_tail(candidates, indices))
        if again.size:
            rows = zip(indices[again], candidates.log_unit[again], candidates.cumulative[again, -1], strict=True)
            weights = np.array([self._tail_weight(int(i), float(unit), float(weight)) for i, unit, weight in rows])
            ranks[again], decided[again] = self._choose(candidates.take(again).with_tail(weights), indices[again])
        ids = candidates.ids[np.arange(indices.size), ranks].tolist()
        for place, index in enumerate(indices.tolist()):
            tokens[index] = ids[place] if decided[place] else self._draw_from_row(index, candidates.known_ids(place))

    def _choose(self, candidates: Candidates, indices: Ints) -> tuple[Ints, Bools]:
        return choose(candidates, [self._draws[index] for index in indices.tolist()], self._logits.logits.shape[1])

    def _hang_on_the_tail(self, candidates: Candidates, indices: Ints) -> Bools:
        """Whether it may decide a row to know what its tail weighs, where only bounds of that are known."""
        vocab_size = self._logits.logits.shape[1]
        params = [self._draws[index].params for index in indices.tolist()]
        on_mass = np.array([p.top_p < 1 or not is_restricted(p, vocab_size) for p in params], dtype=np.bool_)
        return on_mass & (candidates.mass_low < candidates.mass_high)

    def _tail_weight(self, index: int, unit: float, allowed_weight: float) -> float:
        """What the allowed tokens of a row that are not known weigh together.

        exp(unit) weighs 1, and the known allowed ones `allowed_weight`.
        """
        mask = self._draws[index].mask
        vocab_size = self._logits.logits.shape[1]
        if mask is None:
            return self._weight_of_unknown(index, unit, np.arange(vocab_size))
        before = float(bounded_exp(self._logits.log_normaliser[self._rows[index]] - unit))
        precise = before < _PRECISE * allowed_weight
        if not (precise and int(np.bitwise_count(mask).sum()) > _MOST * vocab_size):
            return self._weight_of_unknown(index, unit, allowed_ids(mask))
        here = self._edits.rows == index
        unknown = here & self._known.unknown_edits
        rest = (
            before
            + bounded_exp(self._edits.after[unknown] - unit).sum()
            - bounded_exp(self._edits.before[here] - unit).sum()
            - bounded_exp(self._known.unedited_values[index] - unit).cumsum()[-1]
        )
        others = allowed_ids(~mask)
        return max(float(rest) - self._weight_of_unknown(index, unit, others[others < vocab_size]), 0.0)

    def _weight_of_unknown(self, index: int, unit: float, ids: Ints) -> float:
        """The weight of those of the rising `ids` that are not among the row's known tokens."""
        row = self._rows[index]
        exponents = self._logits.logits[row][ids] * np.float32(1 / self._temperatures[index]) - np.float32(unit)
        # No unknown token weighs more than a known one; others, which may, are taken out below.
        weights = np.exp(np.minimum(exponents, 0))
        here = self._edits.rows == index
        for taken in (self._logits.top_ids[row], self._edits.ids[here]):
            places, found = places_in(ids, taken)
            weights[places[found]] = 0
        here &= self._known.unknown_edits
        _, found = places_in(ids, self._edits.ids[here])
        edited = np.exp(self._edits.after[here][found] - unit)
        return float(weights.sum(dtype=np.float64) + edited.sum())

    def _draw_from_row(self, index: int, known_ids: Ints) -> int | None:
        return draw_from_row(
            self._logits.logits[self._rows[index]],
            self._draws[index],
            known_ids=known_ids,
            edited=self._edits.of_row(index),
            log_mass=None,
        )
