"""One step's draws."""

from collections.abc import Sequence

import numpy as np

from forebay.engine.runner import StepLogits
from forebay.engine.sampling.arrays import Ints
from forebay.engine.sampling.candidates import Candidates
from forebay.engine.sampling.changed import ChangedRows
from forebay.engine.sampling.choose import choose
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.full_row import draw_from_row


def sample(logits: StepLogits, draws: Sequence[Draw]) -> list[int | None]:
    """One token id for each row of `logits`, in order; None where no token is allowed."""
    chosen: list[int | None] = logits.top_ids[:, 0].tolist()
    plain: list[int] = []
    changed: list[int] = []
    for row, draw in enumerate(draws):
        if not draw.is_plain:
            changed.append(row)
        elif draw.params.temperature > 0:
            plain.append(row)
    if plain:
        tokens = _draw_plain(logits, np.array(plain), [draws[row] for row in plain])
        for row, token in zip(plain, tokens, strict=True):
            chosen[row] = token
    if changed:
        tokens = ChangedRows(logits, np.array(changed), [draws[row] for row in changed]).draw()
        for row, token in zip(changed, tokens, strict=True):
            chosen[row] = token
    return chosen


def _draw_plain(logits: StepLogits, rows: Ints, draws: Sequence[Draw]) -> list[int | None]:
    candidates = Candidates.of_plain(logits, rows)
    ranks, decided = choose(candidates, draws, logits.logits.shape[1])
    tokens: list[int | None] = candidates.ids[np.arange(rows.size), ranks].tolist()
    for index in np.flatnonzero(~decided).tolist():
        row = rows[index]
        tokens[index] = draw_from_row(
            logits.logits[row],
            draws[index],
            known_ids=candidates.known_ids(index),
            edited=None,
            log_mass=float(logits.log_normaliser[row]),
        )
    return tokens
