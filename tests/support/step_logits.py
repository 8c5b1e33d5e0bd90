"""What a runner returns, made from raw logits; and what a sequence has seen."""

from collections.abc import Sequence

import numpy as np

from forebay.engine.request import SamplingParams
from forebay.engine.runner import StepLogits
from forebay.engine.sampling.history import TokenHistory


def step_logits(rows: np.ndarray, params: Sequence[SamplingParams], num_top: int = 50) -> StepLogits:
    """What a runner returns for these raw logits."""
    raw = rows.astype(np.float32)
    inverse = np.array([1 / (p.temperature or 1.0) for p in params], dtype=np.float32)
    scaled = raw * inverse[:, None]
    top_ids = np.argsort(-scaled, axis=1, kind="stable")[:, :num_top]
    largest = scaled.max(axis=1, keepdims=True) if scaled.size else scaled[:, :1]
    return StepLogits(
        raw,
        np.take_along_axis(scaled, top_ids, axis=1),
        top_ids.astype(np.int32),
        np.log(np.exp(scaled - largest).sum(axis=1)) + largest[:, 0],
    )


def history(prompt: Sequence[int], generated: Sequence[int]) -> TokenHistory:
    made = TokenHistory(prompt)
    for token in generated:
        made.push(token)
    return made
