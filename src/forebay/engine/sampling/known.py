"""The tokens of changed rows that can be told without a look at the whole row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forebay.engine.runner import StepLogits
from forebay.engine.sampling.arrays import Bools, Floats, Ints, places_in
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.edits import Edits
from forebay.engine.sampling.mask import Masks

_FEW = 128
"""Where a mask allows no more tokens than this, each of them is looked up."""


@dataclass(frozen=True, slots=True)
class Known:
    """The known tokens of s changed rows in no order, W columns.

    These are the graph's without those edited, those edited that came to the top, and all that are allowed where these
    are few.
    """

    ids: Ints
    """[s, W]."""
    values: Floats
    """Logits over temperature, changed, [s, W]; -inf where no token is."""
    num_unedited: int
    """The first so many columns hold tokens that are not edited, the others edited ones."""
    allowed_values: Floats
    """`values`, but -inf where the row's mask does not allow the token."""
    floor: Floats
    """No other allowed token is larger, [s]."""
    num_tail: Ints
    """At most so many other tokens are allowed, [s]."""
    masked: Bools
    """Which rows have a mask, [s]."""
    unknown_edits: Bools
    """Which edits are not among the known, [n]."""

    @property
    def unedited_values(self) -> Floats:
        """Those of `values` that are not edited."""
        return self.values[:, : self.num_unedited]

    @classmethod
    def of(cls, logits: StepLogits, rows: Ints, draws: Sequence[Draw], edits: Edits, temperatures: Floats) -> "Known":
        vocab_size = logits.logits.shape[1]
        top_ids = logits.top_ids[rows].astype(np.int64)
        top_values = logits.top_values[rows].astype(np.float64)
        floor = np.full(rows.size, -np.inf) if top_ids.shape[1] == vocab_size else top_values[:, -1]
        masks = Masks.of(draws, vocab_size)
        num_allowed = np.full(rows.size, vocab_size)
        num_allowed[masks.rows] = masks.num_allowed()
        masked = np.zeros(rows.size, dtype=np.bool_)
        masked[masks.rows] = True
        edited_keys = np.sort(edits.rows * vocab_size + edits.ids)
        top_keys = np.arange(rows.size)[:, None] * vocab_size + top_ids
        _, edited = places_in(edited_keys, top_keys)
        risen = edits.after >= floor[edits.rows]
        few = masked & (num_allowed <= _FEW)
        parts: list[tuple[Ints, Floats, Bools]] = [(top_ids, np.where(edited, -np.inf, top_values), ~edited)]
        if few.any():
            at = np.flatnonzero(few[edits.rows])
            risen[at] |= masks.allow(edits.rows[at], edits.ids[at])
            listed_rows, listed_ids = masks.listed(few[masks.rows])
            keys = listed_rows * vocab_size + listed_ids
            fresh = ~places_in(edited_keys, keys)[1] & ~places_in(np.sort(top_keys, axis=None), keys)[1]
            listed_rows, listed_ids = listed_rows[fresh], listed_ids[fresh]
            listed = logits.logits[rows[listed_rows], listed_ids].astype(np.float64) / temperatures[listed_rows]
            parts.append(_by_row(listed_rows, listed_ids, listed, rows.size))
        parts.append(_by_row(edits.rows[risen], edits.ids[risen], edits.after[risen], rows.size))
        ids, values, allowed = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
        allowed[masks.rows] &= masks.allow(masks.rows[:, None], ids[masks.rows])
        num_tail = num_allowed - allowed.sum(axis=1)
        return cls(
            ids=ids,
            values=values,
            num_unedited=values.shape[1] - parts[-1][1].shape[1],
            allowed_values=np.where(allowed, values, -np.inf),
            floor=np.where(num_tail == 0, -np.inf, floor),
            num_tail=num_tail,
            masked=masked,
            unknown_edits=~risen,
        )


def _by_row(rows: Ints, ids: Ints, values: Floats, num_rows: int) -> tuple[Ints, Floats, Bools]:
    """Flat tokens as [num_rows, most of a row]: ids, values (else -inf), and whether there is one."""
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    counts = np.bincount(rows, minlength=num_rows)
    places = np.arange(rows.size) - (np.cumsum(counts) - counts)[rows]
    shape = (num_rows, int(counts.max(initial=0)))
    all_ids = np.zeros(shape, dtype=np.int64)
    all_values = np.full(shape, -np.inf)
    present = np.zeros(shape, dtype=np.bool_)
    all_ids[rows, places] = ids[order]
    all_values[rows, places] = values[order]
    present[rows, places] = True
    return all_ids, all_values, present
