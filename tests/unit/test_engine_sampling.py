"""Drawing tokens: against the definition of each restriction, on distributions small enough to know whole."""

from dataclasses import replace

import numpy as np
import pytest

from forebay.engine.request import SamplingParams
from forebay.engine.runner import StepLogits
from forebay.engine.sampling import Draw, sample

VOCAB = 50


def step_logits(rows: np.ndarray, params: list[SamplingParams], num_top: int = VOCAB) -> StepLogits:
    """What a runner returns for these raw logits."""
    temperature = np.array([p.temperature or 1.0 for p in params])
    scaled = rows / temperature[:, None]
    top_ids = np.argsort(-scaled, axis=1, kind="stable")[:, :num_top]
    return StepLogits(
        rows.astype(np.float32),
        np.take_along_axis(scaled, top_ids, axis=1).astype(np.float32),
        top_ids.astype(np.int32),
        np.log(np.exp(scaled).sum(axis=1)).astype(np.float32),
    )


def draw_many(row: np.ndarray, params: SamplingParams, count: int, num_top: int = VOCAB) -> np.ndarray:
    logits = step_logits(np.tile(row, (count, 1)), [params] * count, num_top)
    return np.array(sample(logits, [Draw(params, seed=11, position=i) for i in range(count)]))


def allowed_distribution(row: np.ndarray, params: SamplingParams) -> np.ndarray:
    """The definition: temperature, then top_k, then the smallest set that holds top_p of what is left."""
    p = np.exp(row / params.temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if params.top_k:
        p[order[params.top_k :]] = 0
        p /= p.sum()
    end = int(np.searchsorted(np.cumsum(p[order]), params.top_p - 1e-9)) + 1
    p[order[end:]] = 0
    return p / p.sum()


@pytest.mark.parametrize("num_top", [VOCAB, 4])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.5),
        SamplingParams(top_k=3),
        SamplingParams(top_k=20),
        SamplingParams(top_p=0.6),
        SamplingParams(temperature=2.0, top_p=0.9),
        SamplingParams(top_k=10, top_p=0.7, temperature=1.5),
    ],
)
def test_draws_follow_the_restricted_distribution(params: SamplingParams, num_top: int):
    row = np.random.default_rng(1).normal(size=VOCAB) * 2
    expected = allowed_distribution(row, params)
    count = 800
    frequencies = np.bincount(draw_many(row, params, count, num_top), minlength=VOCAB) / count
    assert set(np.flatnonzero(frequencies)) <= set(np.flatnonzero(expected))
    # Five standard deviations of a binomial share; a rare token may come three times where none was expected.
    assert np.all(np.abs(frequencies - expected) <= 5 * np.sqrt(expected * (1 - expected) / count) + 3 / count)


def test_few_sorted_candidates_and_all_of_them_give_the_same_restricted_draws():
    for vocab in (VOCAB, 5000):
        row = np.random.default_rng(2).normal(size=vocab)
        for params in (SamplingParams(top_p=0.95), SamplingParams(top_k=30), SamplingParams(top_k=40, top_p=0.9)):
            assert np.array_equal(draw_many(row, params, 150, num_top=4), draw_many(row, params, 150, num_top=vocab))


def test_logits_that_differ_a_little_seldom_change_a_draw():
    """As they do with the shape of a step: a seed must survive it."""
    random = np.random.default_rng(6)
    row = random.normal(size=VOCAB) * 2
    nearly = row + random.normal(size=VOCAB) * 1e-3
    changed = draw_many(row, SamplingParams(), 1500) != draw_many(nearly, SamplingParams(), 1500)
    assert changed.mean() < 0.005


def test_a_top_k_of_more_than_there_is_and_a_top_p_of_1_allow_everything():
    row = np.zeros(VOCAB)
    for params in (SamplingParams(top_k=10 * VOCAB), SamplingParams(top_k=VOCAB), SamplingParams()):
        assert set(draw_many(row, params, 800, num_top=4)) == set(range(VOCAB))


def test_temperature_zero_takes_the_largest_beside_rows_that_are_drawn():
    rows = np.random.default_rng(3).normal(size=(6, VOCAB))
    params = [SamplingParams(temperature=0.0), SamplingParams(temperature=1.0)] * 3
    chosen = sample(step_logits(rows, params), [Draw(p, 5, i) for i, p in enumerate(params)])
    assert [chosen[i] for i in (0, 2, 4)] == [int(rows[i].argmax()) for i in (0, 2, 4)]


def test_a_draw_depends_on_its_seed_and_position_and_not_on_its_neighbours():
    rows = np.random.default_rng(4).normal(size=(5, VOCAB))
    params = SamplingParams()
    together = sample(step_logits(rows, [params] * 5), [Draw(params, seed, 3) for seed in range(5)])
    alone = [sample(step_logits(rows[i : i + 1], [params]), [Draw(params, i, 3)])[0] for i in range(5)]
    assert together == alone
    assert len({tuple(draw_many(rows[0], replace(params, top_k=k), 50)) for k in (0, 1)}) == 2


def test_no_rows_is_no_tokens():
    assert sample(step_logits(np.zeros((0, VOCAB)), []), []) == []
