"""Drawing tokens: against the definition of each restriction, on distributions small enough to know whole."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from forebay.engine.request import SamplingParams
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.history import TokenHistory
from forebay.engine.sampling.mask import allowed_mask
from forebay.engine.sampling.sample import sample
from tests.support.step_logits import history, step_logits

VOCAB = 50
GREEDY = SamplingParams(temperature=0.0)


def one_draw(
    params: SamplingParams,
    position: int = 0,
    seed: int = 11,
    past: TokenHistory | None = None,
    banned: Sequence[int] = (),
    allowed: Sequence[int] | None = None,
    vocab: int = VOCAB,
) -> Draw:
    mask = None if allowed is None else allowed_mask(allowed, vocab)
    return Draw(params, seed, position, past, banned, mask)


def draw_many(row: np.ndarray, draw: Draw, count: int, num_top: int = VOCAB) -> np.ndarray:
    logits = step_logits(np.tile(row, (count, 1)), [draw.params] * count, num_top)
    return np.array(sample(logits, [replace(draw, position=i) for i in range(count)]))


def draw_once(row: np.ndarray, draw: Draw, num_top: int = VOCAB) -> int | None:
    return sample(step_logits(row[None, :], [draw.params], num_top), [draw])[0]


def falling_row(vocab: int = VOCAB) -> np.ndarray:
    """Token 0 is the likeliest, each next one less likely by a fifth of a nat."""
    return 4.0 - 0.2 * np.arange(vocab)


def allowed_distribution(row: np.ndarray, params: SamplingParams) -> np.ndarray:
    """The definition: temperature, then min_p, then top_k, then the smallest set that holds top_p of what is left."""
    p = np.exp(row / params.temperature)
    p[p < params.min_p * p.max()] = 0
    order = np.argsort(-p, kind="stable")
    if params.top_k:
        p[order[params.top_k :]] = 0
    p /= p.sum()
    end = int(np.searchsorted(np.cumsum(p[order]), params.top_p - 1e-9)) + 1
    p[order[end:]] = 0
    return p / p.sum()


def assert_follows(drawn: np.ndarray, expected: np.ndarray) -> None:
    count = drawn.size
    frequencies = np.bincount(drawn, minlength=expected.size) / count
    assert set(np.flatnonzero(frequencies)) <= set(np.flatnonzero(expected))
    # Five standard deviations of a binomial share; a rare token may come three times where none was expected.
    assert np.all(np.abs(frequencies - expected) <= 5 * np.sqrt(expected * (1 - expected) / count) + 3 / count)


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
        SamplingParams(min_p=0.3),
        SamplingParams(min_p=0.01),
        SamplingParams(min_p=0.02, top_k=10, top_p=0.8),
    ],
)
def test_draws_follow_the_restricted_distribution(params: SamplingParams, num_top: int):
    row = np.random.default_rng(1).normal(size=VOCAB) * 2
    assert_follows(draw_many(row, one_draw(params), 800, num_top), allowed_distribution(row, params))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(top_p=0.95),
        SamplingParams(top_k=30),
        SamplingParams(top_k=40, top_p=0.9),
        SamplingParams(min_p=0.05),
        SamplingParams(min_p=0.01, top_p=0.9),
    ],
)
@pytest.mark.parametrize("vocab", [VOCAB, 5000])
def test_few_sorted_candidates_and_all_of_them_give_the_same_restricted_draws(params: SamplingParams, vocab: int):
    row = np.random.default_rng(2).normal(size=vocab)
    draw = one_draw(params)
    assert np.array_equal(draw_many(row, draw, 150, num_top=4), draw_many(row, draw, 150, num_top=vocab))


def test_logits_that_differ_a_little_seldom_change_a_draw():
    """As they do with the shape of a step: a seed must survive it."""
    random = np.random.default_rng(6)
    row = random.normal(size=VOCAB) * 2
    nearly = row + random.normal(size=VOCAB) * 1e-3
    changed = draw_many(row, one_draw(SamplingParams()), 1500) != draw_many(nearly, one_draw(SamplingParams()), 1500)
    assert changed.mean() < 0.005


def test_a_seed_draws_what_it_drew_before():
    """Whoever kept a seed relies on the numbers made from it."""
    drawn = draw_many(falling_row(), one_draw(SamplingParams(temperature=0.8)), 12)
    assert drawn.tolist() == [0, 4, 0, 9, 8, 2, 8, 14, 5, 0, 0, 9]


def test_a_top_k_of_more_than_there_is_and_a_top_p_of_1_allow_everything():
    row = np.zeros(VOCAB)
    for params in (SamplingParams(top_k=10 * VOCAB), SamplingParams(top_k=VOCAB), SamplingParams()):
        assert set(draw_many(row, one_draw(params), 800, num_top=4)) == set(range(VOCAB))


def test_min_p_1_leaves_only_ties_of_the_best():
    row = falling_row()
    row[30] = row[0]
    assert set(draw_many(row, one_draw(SamplingParams(min_p=1.0)), 100, num_top=4)) == {0, 30}


def test_a_tiny_top_p_leaves_the_best():
    assert set(draw_many(falling_row(), one_draw(SamplingParams(top_p=1e-6)), 50, num_top=4)) == {0}


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.01), SamplingParams(temperature=0.01, top_p=0.9)])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_cold_and_huge_logits_take_the_best(params: SamplingParams, scale: float):
    row = falling_row() * scale
    assert set(draw_many(row, one_draw(params), 50, num_top=4)) == {0}
    assert set(draw_many(row, one_draw(params, allowed=range(7, VOCAB)), 50, num_top=4)) == {7}


def test_temperature_zero_takes_the_largest_beside_rows_that_are_drawn():
    rows = np.random.default_rng(3).normal(size=(6, VOCAB))
    params = [GREEDY, SamplingParams()] * 3
    chosen = sample(step_logits(rows, params), [one_draw(p, i) for i, p in enumerate(params)])
    assert [chosen[i] for i in (0, 2, 4)] == [int(rows[i].argmax()) for i in (0, 2, 4)]


def test_a_draw_depends_on_its_seed_and_position_and_not_on_its_neighbours():
    rows = np.random.default_rng(4).normal(size=(5, VOCAB))
    params = SamplingParams()
    together = sample(step_logits(rows, [params] * 5), [one_draw(params, 3, seed) for seed in range(5)])
    alone = [draw_once(rows[i], one_draw(params, 3, seed=i)) for i in range(5)]
    assert together == alone
    assert len({tuple(draw_many(rows[0], one_draw(replace(params, top_k=k)), 50)) for k in (0, 1)}) == 2


def test_no_rows_is_no_tokens():
    assert sample(step_logits(np.zeros((0, VOCAB)), []), []) == []


@pytest.mark.parametrize("num_top", [VOCAB, 4])
class TestBiasAndBans:
    @pytest.mark.parametrize("token", [2, 45])
    @pytest.mark.parametrize("temperature", [0.0, 0.01, 1.0])
    def test_a_bias_of_100_forces_a_token(self, token: int, temperature: float, num_top: int):
        params = SamplingParams(temperature=temperature, logit_bias=((token, 100.0),))
        assert set(draw_many(falling_row(), one_draw(params), 30, num_top)) == {token}

    def test_a_bias_of_minus_100_takes_tokens_away(self, num_top: int):
        params = SamplingParams(logit_bias=tuple((token, -100.0) for token in range(6)))
        row = falling_row()
        expected = np.where(np.arange(VOCAB) < 6, 0.0, np.exp(row))
        assert_follows(draw_many(row, one_draw(params), 800, num_top), expected / expected.sum())
        assert draw_once(row, one_draw(replace(params, temperature=0.0)), num_top) == 6

    def test_a_small_bias_shifts_the_distribution(self, num_top: int):
        params = SamplingParams(logit_bias=((1, -1.0), (40, 7.0)))
        row = falling_row()
        expected = row.copy()
        expected[1] -= 1
        expected[40] += 7
        expected = np.exp(expected) / np.exp(expected).sum()
        assert_follows(draw_many(row, one_draw(params), 1500, num_top), expected)

    def test_banned_tokens_are_not_drawn(self, num_top: int):
        assert draw_once(falling_row(), one_draw(GREEDY, banned=[0, 1]), num_top) == 2
        assert draw_once(falling_row(), one_draw(GREEDY, banned=range(20)), num_top) == 20
        assert not {0, 1, 2} & set(draw_many(falling_row(), one_draw(SamplingParams(), banned=[0, 1, 2]), 300, num_top))

    def test_a_ban_is_stronger_than_a_bias(self, num_top: int):
        params = SamplingParams(logit_bias=((0, 100.0), (7, 50.0)))
        assert set(draw_many(falling_row(), one_draw(params, banned=[0, 0]), 30, num_top)) == {7}

    @pytest.mark.parametrize("params", [GREEDY, SamplingParams(), SamplingParams(top_p=0.9, min_p=0.1)])
    def test_where_all_is_banned_nothing_is_drawn(self, params: SamplingParams, num_top: int):
        draws = [one_draw(params, banned=range(VOCAB)), one_draw(params, allowed=[3, 44], banned=[44, 3])]
        nothing, nothing_either, something = sample(
            step_logits(np.tile(falling_row(), (3, 1)), [params] * 3, num_top), [*draws, one_draw(params)]
        )
        assert nothing is None
        assert nothing_either is None
        assert something is not None

    def test_ids_outside_the_vocabulary_change_nothing(self, num_top: int):
        strange = [-1, VOCAB, 10**9]
        params = SamplingParams(temperature=0.0, logit_bias=tuple((token, 100.0) for token in strange))
        draws = [
            one_draw(params, banned=strange),
            one_draw(replace(GREEDY, presence_penalty=1.0), past=history(strange, strange)),
        ]
        logits = step_logits(np.tile(falling_row(), (2, 1)), [GREEDY] * 2, num_top)
        assert sample(logits, draws) == [0, 0]


@pytest.mark.parametrize("num_top", [VOCAB, 4])
class TestPenalties:
    def test_a_presence_penalty_counts_generated_tokens_once(self, num_top: int):
        params = SamplingParams(temperature=0.0, presence_penalty=0.5)
        # 0 falls from 4.0 to 3.5, behind 1 (3.8) and 2 (3.6), before 3 (3.4); the prompt's 1 does not count.
        assert draw_once(falling_row(), one_draw(params, past=history([1], [0, 0, 0])), num_top) == 1
        assert draw_once(falling_row(), one_draw(params, past=history([1], [0, 0, 0]), banned=[1, 2]), num_top) == 0

    def test_a_frequency_penalty_counts_each_time(self, num_top: int):
        params = SamplingParams(temperature=0.0, frequency_penalty=0.1)
        assert draw_once(falling_row(), one_draw(params, past=history([], [0])), num_top) == 0
        assert draw_once(falling_row(), one_draw(params, past=history([], [0, 0, 0])), num_top) == 1

    def test_a_negative_frequency_penalty_lifts_a_token_from_the_tail(self, num_top: int):
        params = SamplingParams(temperature=0.0, frequency_penalty=-2.0)
        assert draw_once(falling_row(), one_draw(params, past=history([3], [45] * 6)), num_top) == 45
        assert draw_once(falling_row(), one_draw(params, past=history([3], [45])), num_top) == 0

    def test_a_repetition_penalty_sees_the_prompt_too(self, num_top: int):
        params = SamplingParams(temperature=0.0, repetition_penalty=1.3)
        assert draw_once(falling_row(), one_draw(params, past=history([0, 1], [2, 2])), num_top) == 3

    def test_a_repetition_penalty_below_1_lifts_a_token_above_all(self, num_top: int):
        params = SamplingParams(temperature=0.0, repetition_penalty=0.1)
        # 18 has 0.4: divided by 0.1 it is 4.0, before no other but 0; 17 has 0.6.
        assert draw_once(falling_row(), one_draw(params, past=history([17], [])), num_top) == 17
        # A negative one only comes nearer to 0.
        assert draw_once(falling_row(), one_draw(params, past=history([40], [])), num_top) == 0

    def test_a_repetition_penalty_lowers_negative_logits_too(self, num_top: int):
        params = SamplingParams(temperature=0.0, repetition_penalty=1.3)
        assert draw_once(falling_row() - 5.0, one_draw(params, past=history([0, 1], [])), num_top) == 0
        assert draw_once(falling_row() - 5.0, one_draw(params, past=history([0], [0])), num_top) == 1

    def test_the_bias_comes_before_the_repetition_penalty(self, num_top: int):
        params = SamplingParams(temperature=0.0, repetition_penalty=0.5, logit_bias=((40, 6.2),))
        # 40 has -4.0: with its bias 2.2, and that over 0.5 is 4.4.
        assert draw_once(falling_row(), one_draw(params, past=history([40], [])), num_top) == 40

    def test_bias_penalty_and_ban_of_the_same_token_meet(self, num_top: int):
        params = SamplingParams(temperature=0.0, frequency_penalty=1.0, logit_bias=((0, 1.9), (1, 3.0)))
        # 0: 4.0 + 1.9 - 2; 1: banned; 2: 3.6 - 1; 3: 3.4.
        assert draw_once(falling_row(), one_draw(params, past=history([], [0, 0, 2]), banned=[1]), num_top) == 0
        assert draw_once(falling_row(), one_draw(params, past=history([], [0, 0, 2, 0]), banned=[1]), num_top) == 3


@pytest.mark.parametrize("num_top", [VOCAB, 4])
@pytest.mark.parametrize(
    "params", [GREEDY, SamplingParams(), SamplingParams(top_p=0.8), SamplingParams(top_k=2), SamplingParams(min_p=0.5)]
)
def test_one_allowed_token_is_drawn_wherever_it_stands(params: SamplingParams, num_top: int):
    for token in (0, 2, 31, 32, 49):
        assert set(draw_many(falling_row(), one_draw(params, allowed=[token]), 20, num_top)) == {token}


@pytest.mark.parametrize("num_top", [VOCAB, 4])
@pytest.mark.parametrize(
    "params", [SamplingParams(), SamplingParams(top_p=0.8), SamplingParams(top_k=5), SamplingParams(min_p=0.4, top_k=9)]
)
@pytest.mark.parametrize("allowed", [range(30), range(0, VOCAB, 2), range(10, 40)])
def test_a_masked_row_follows_the_distribution_of_what_is_allowed(params: SamplingParams, allowed: range, num_top: int):
    row = falling_row()
    masked = np.full(VOCAB, -np.inf)
    masked[allowed] = row[allowed]
    drawn = draw_many(row, one_draw(params, allowed=allowed), 800, num_top)
    assert_follows(drawn, allowed_distribution(masked, params))


WIDE = 400
"""So many tokens that a mask may allow more than are looked up one by one."""


@pytest.mark.parametrize("num_top", [8, 64])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.3, top_p=0.5),
        SamplingParams(top_p=0.1),
        SamplingParams(top_p=0.4),
        SamplingParams(top_p=0.95),
        SamplingParams(top_k=5),
        SamplingParams(top_k=90, top_p=0.3),
        SamplingParams(min_p=0.8),
        SamplingParams(min_p=0.2, top_p=0.4),
    ],
)
@pytest.mark.parametrize("forbidden", [range(130, WIDE), range(0, WIDE, 2), [1, 33, 70, 200], range(2), range(150)])
def test_restricted_draws_of_changed_rows_do_not_depend_on_how_much_was_sorted(
    forbidden: Sequence[int], params: SamplingParams, num_top: int
):
    row = 4.0 - 0.02 * np.arange(WIDE)
    draw = one_draw(params, allowed=[token for token in range(WIDE) if token not in forbidden], vocab=WIDE)
    biased = one_draw(replace(params, logit_bias=tuple((token, -50.0) for token in forbidden)))
    both = replace(draw, params=replace(params, logit_bias=((0, 1.0), (1, 1.0), (90, 2.0))))
    for each in (draw, biased, both):
        assert np.array_equal(draw_many(row, each, 30, num_top), draw_many(row, each, 30, WIDE))


@pytest.mark.parametrize("forbidden", [range(0, WIDE, 2), [1, 33, 70, 200], range(150)])
def test_unrestricted_draws_of_a_widely_masked_row_follow_its_distribution(forbidden: Sequence[int]):
    row = 4.0 - 0.02 * np.arange(WIDE)
    masked = row.copy()
    masked[forbidden] = -np.inf
    draw = one_draw(SamplingParams(), allowed=np.flatnonzero(masked > -np.inf).tolist(), vocab=WIDE)
    drawn = draw_many(row, draw, 2000, num_top=20)
    # In tens of tokens: each alone is too rare to tell.
    expected = allowed_distribution(masked, draw.params).reshape(-1, 10).sum(axis=1)
    assert not set(drawn) & set(forbidden)
    assert_follows(drawn // 10, expected)


@pytest.mark.parametrize("num_top", [VOCAB, 4])
def test_a_lifted_token_that_is_not_allowed_does_not_blur_what_is(num_top: int):
    params = SamplingParams(top_p=0.9, temperature=0.5, logit_bias=((9, 100.0),))
    row = 0.1 * falling_row()
    allowed = [token for token in range(VOCAB) if token != 9]
    masked = row.copy()
    masked[9] = -np.inf
    drawn = draw_many(row, one_draw(params, allowed=allowed), 800, num_top)
    assert_follows(drawn, allowed_distribution(masked, params))


def test_rows_of_every_kind_draw_the_same_alone_and_together():
    random = np.random.default_rng(9)
    vocab = 700
    kinds = [
        SamplingParams(),
        GREEDY,
        SamplingParams(temperature=0.7, top_p=0.9, frequency_penalty=0.4, repetition_penalty=1.2),
        SamplingParams(logit_bias=((5, 8.0), (600, 9.0), (601, -3.0))),
        SamplingParams(temperature=0.0, presence_penalty=1.5),
        SamplingParams(min_p=0.05, frequency_penalty=-1.0, logit_bias=((9, 2.0),)),
        SamplingParams(top_k=12, top_p=0.8),
    ]
    params = [kinds[i % len(kinds)] for i in range(42)]
    rows = random.normal(size=(42, vocab)) * 3
    draws = [
        Draw(
            p,
            seed=i,
            position=i % 5,
            history=history(random.integers(0, vocab, 200).tolist(), random.integers(0, vocab, 20 * (i % 4)).tolist())
            if TokenHistory.wanted_by(p)
            else None,
            banned=random.integers(0, vocab, i % 3).tolist() if i % 2 else [],
            mask=allowed_mask(random.integers(0, vocab, 3 ** (i % 7)).tolist(), vocab) if i % 3 else None,
        )
        for i, p in enumerate(params)
    ]
    together = sample(step_logits(rows, params, 16), draws)
    alone = [sample(step_logits(rows[i : i + 1], [params[i]], 16), [draws[i]])[0] for i in range(42)]
    assert together == alone
    by_twos = [sample(step_logits(rows[i : i + 2], params[i : i + 2], 16), draws[i : i + 2]) for i in range(0, 42, 2)]
    assert together == [token for pair in by_twos for token in pair]
