"""The known allowed tokens of some rows, and what is known of all others."""

from dataclasses import dataclass, replace

import numpy as np

from forebay.engine.runner import StepLogits
from forebay.engine.sampling.arrays import Bools, Floats, Ints, bounded_exp, quiet_log
from forebay.engine.sampling.edits import Edits
from forebay.engine.sampling.known import Known

_RELATIVE_ERROR = 2.0**-21
"""Of the graph's float32 normaliser, for each unit of its own size."""
_VAGUE = 0.05
"""When less than this part of a row's mass is left, the difference says too little of it."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """For r rows: the known allowed tokens, likeliest first, W columns.

    A row with fewer is filled up with weights of 0. Weights are probabilities up to a factor of the row, so that the
    sizes of logits do not matter; the row's other tokens are the tail.
    """

    ids: Ints
    """[r, W]."""
    log_weights: Floats
    """[r, W], in falling order."""
    cumulative: Floats
    """Of the weights, float64 [r, W]."""
    mass_low: Floats
    mass_high: Floats
    """Between which the weight of all allowed tokens lies, [r]; equal where it is known."""
    log_floor: Floats
    """No token of the tail weighs more, [r]."""
    log_tail: Floats
    """No more than this is the weight of the allowed tokens of the tail together, [r]."""
    log_unit: Floats
    """The logit over temperature that weighs 1, [r]."""
    complete: Bools
    """Whether none of the tail is allowed, [r]."""

    @classmethod
    def of_plain(cls, logits: StepLogits, rows: Ints) -> "Candidates":
        """Of rows whose logits nothing changes: the graph's own, their weights being probabilities."""
        ids = logits.top_ids[rows]
        unit = logits.log_normaliser[rows]
        log_weights = logits.top_values[rows] - unit[:, None]
        cumulative = np.cumsum(np.exp(log_weights), axis=1, dtype=np.float64)
        num_tail = logits.logits.shape[1] - ids.shape[1]
        one = np.ones(rows.size)
        floor = log_weights[:, -1].astype(np.float64)
        # The second bound keeps the first one's rounding error from giving the tail of a peaked row a chance.
        tail = np.minimum(np.maximum(1 - cumulative[:, -1], 0), num_tail * np.exp(floor))
        complete = np.full(rows.size, num_tail == 0)
        return cls(ids, log_weights, cumulative, one, one, floor, quiet_log(tail), unit, complete)

    @classmethod
    def of_changed(cls, known: Known, normaliser: Floats, edits: Edits) -> "Candidates":
        """Of rows with edits or masks; `normaliser` [s] is that of the rows before."""
        best = known.allowed_values.max(axis=1)
        normaliser = normaliser.astype(np.float64)
        unit = np.where(np.isneginf(best), normaliser, best)
        before = bounded_exp(normaliser - unit)
        # The tail weighs what all do without those edited and those known, and with the edited that stay in the tail.
        # Those that rose may weigh any amount, and take no part in the sum.
        unit_of_edit = unit[edits.rows]
        change = np.where(known.unknown_edits, bounded_exp(edits.after - unit_of_edit), 0)
        change -= bounded_exp(edits.before - unit_of_edit)
        # Sums run along a row in order: its padding, which depends on the other rows, must not change a bit of them.
        known_mass = np.cumsum(bounded_exp(known.unedited_values - unit[:, None]), axis=1)[:, -1]
        rest = before + np.bincount(edits.rows, weights=change, minlength=best.size) - known_mass
        rest = np.maximum(rest, 0)
        order = np.argsort(-known.allowed_values, axis=1, kind="stable")
        log_weights = np.take_along_axis(known.allowed_values, order, axis=1) - unit[:, None]
        cumulative = np.cumsum(np.exp(log_weights), axis=1)
        error = before * _RELATIVE_ERROR * (1 + np.abs(normaliser))
        tail = np.minimum(rest + error, known.num_tail * np.exp(known.floor - unit))
        allowed_mass = cumulative[:, -1]
        total = allowed_mass + np.where(known.num_tail == 0, 0, rest)
        exact = ~known.masked & (total > _VAGUE * before)
        return cls(
            ids=np.take_along_axis(known.ids, order, axis=1),
            log_weights=log_weights,
            cumulative=cumulative,
            mass_low=np.where(exact, total, allowed_mass),
            mass_high=np.where(exact, total, allowed_mass + tail),
            log_floor=known.floor - unit,
            log_tail=quiet_log(tail),
            log_unit=unit,
            complete=known.num_tail == 0,
        )

    @classmethod
    def of_row(cls, ids: Ints, values: Floats, log_mass: float, complete: bool) -> "Candidates":
        """The largest tokens of one row, in falling order; exp(log_mass) is the weight of all allowed ones."""
        log_weights = (values - values[0])[None, :]
        cumulative = np.cumsum(np.exp(log_weights), axis=1)
        mass = np.maximum(bounded_exp(np.array([log_mass - values[0]])), cumulative[:, -1])
        return cls(
            ids=ids[None, :],
            log_weights=log_weights,
            cumulative=cumulative,
            mass_low=mass,
            mass_high=mass,
            log_floor=log_weights[:, -1],
            log_tail=quiet_log(mass - cumulative[:, -1]),
            log_unit=values[:1],
            complete=np.array([complete]),
        )

    def with_tail(self, weights: Floats) -> "Candidates":
        """The same where the tails are known to weigh just so much, [r]."""
        mass = self.cumulative[:, -1] + weights
        return replace(self, mass_low=mass, mass_high=mass, log_tail=quiet_log(weights))

    def take(self, rows: Ints) -> "Candidates":
        """Those of some rows only."""
        return Candidates(
            ids=self.ids[rows],
            log_weights=self.log_weights[rows],
            cumulative=self.cumulative[rows],
            mass_low=self.mass_low[rows],
            mass_high=self.mass_high[rows],
            log_floor=self.log_floor[rows],
            log_tail=self.log_tail[rows],
            log_unit=self.log_unit[rows],
            complete=self.complete[rows],
        )

    def known_ids(self, row: int) -> Ints:
        """The known allowed tokens of one row."""
        return self.ids[row][self.log_weights[row] > -np.inf]
