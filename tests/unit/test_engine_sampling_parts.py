"""What the draws are made from: token histories, masks, bans; and the log-probabilities told of them."""

import random
from collections import Counter

import numpy as np
import pytest

from forebay.engine.request import SamplingParams
from forebay.engine.sampling.banned import banned_tokens
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.history import TokenHistory
from forebay.engine.sampling.logprobs import token_logprobs
from forebay.engine.sampling.mask import Masks, allowed_ids, allowed_mask
from tests.support.step_logits import step_logits


def as_dict(columns: tuple[np.ndarray, np.ndarray]) -> dict[int, int]:
    ids, counts = columns
    assert len(set(ids.tolist())) == ids.size
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))


def test_a_history_counts_generated_tokens_and_knows_the_prompts():
    chance = random.Random(1)
    prompt = [chance.randrange(40) for _ in range(30)]
    history = TokenHistory(prompt)
    generated: list[int] = []
    for _ in range(200):
        assert as_dict(history.generated) == Counter(generated)
        assert as_dict(history.seen) == dict.fromkeys(prompt, 0) | Counter(generated)
        generated.append(chance.randrange(60))
        history.push(generated[-1])


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        (SamplingParams(), False),
        (SamplingParams(logit_bias=((1, 2.0),), top_p=0.5), False),
        (SamplingParams(repetition_penalty=0.9), True),
        (SamplingParams(presence_penalty=-0.1), True),
        (SamplingParams(frequency_penalty=0.1), True),
    ],
)
def test_a_history_is_wanted_by_penalties(params: SamplingParams, wanted: bool):
    assert TokenHistory.wanted_by(params) is wanted


@pytest.mark.parametrize("vocab", [1, 31, 32, 33, 97, 1000])
def test_a_mask_holds_its_tokens(vocab: int):
    chosen = np.random.default_rng(vocab).random(vocab) < 0.3
    tokens = np.flatnonzero(chosen)
    mask = allowed_mask([*tokens.tolist(), -1, vocab, vocab + 40], vocab)
    assert mask.shape == (-(-vocab // 32),)
    assert [bool(int(mask[t >> 5]) >> (t & 31) & 1) for t in range(vocab)] == chosen.tolist()
    assert np.array_equal(allowed_ids(mask), tokens)


def test_the_masks_of_a_step_answer_for_their_rows():
    vocab = 70
    draws = [
        Draw(SamplingParams(), 0, 0, None, (), mask)
        for mask in (None, allowed_mask([3, 69], vocab), None, allowed_mask(range(40), vocab))
    ]
    masks = Masks.of(draws, vocab)
    assert masks.num_allowed().tolist() == [2, 40]
    assert masks.allow(np.array([1, 1, 3, 3]), np.array([3, 4, 4, 69])).tolist() == [True, False, True, False]
    assert [part.tolist() for part in masks.listed(np.array([True, False]))] == [[1, 1], [3, 69]]


def test_end_and_stop_tokens_are_banned_before_min_tokens():
    params = SamplingParams(min_tokens=2, stop_token_ids=frozenset({7, 2}))
    assert banned_tokens(params, [5], frozenset({2, 3})) == [2, 3, 7]
    assert banned_tokens(params, [5, 6], frozenset({2, 3})) == []


def test_a_bad_word_bans_its_last_token_after_its_others():
    params = SamplingParams(bad_words=((4,), (1, 2, 3), (2, 9)))
    none = frozenset[int]()
    assert banned_tokens(params, [], none) == [4]
    assert banned_tokens(params, [1], none) == [4]
    assert banned_tokens(params, [8, 1, 2], none) == [3, 4, 9]
    assert banned_tokens(params, (1, 2, 5), none) == [4]


@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.3, 2.5])
@pytest.mark.parametrize("scale", [3.0, 200.0])
def test_logprobs_are_the_models_own(temperature: float, scale: float):
    raw = (np.random.default_rng(5).normal(size=(4, 300)) * scale).astype(np.float32)
    expected = raw.astype(np.float64)
    expected -= expected.max(axis=1, keepdims=True)
    expected -= np.log(np.exp(expected).sum(axis=1, keepdims=True))
    logits = step_logits(raw, [SamplingParams(temperature=temperature)] * 4, num_top=20)
    told = token_logprobs(logits, [3, 0, 2], [17, 250, 4], [0, 5, 20], [temperature] * 3)
    for row, token, count, one in zip([3, 0, 2], [17, 250, 4], [0, 5, 20], told, strict=True):
        best = np.argsort(-expected[row], kind="stable")[:count]
        assert one.token_id == token
        assert one.logprob == pytest.approx(expected[row, token], abs=1e-4, rel=1e-6)
        assert [t for t, _ in one.top] == best.tolist()
        assert [p for _, p in one.top] == pytest.approx(expected[row, best].tolist(), abs=1e-4, rel=1e-6)


def test_rows_of_several_temperatures_have_each_its_own_normaliser():
    raw = np.random.default_rng(8).normal(size=(3, 50)).astype(np.float32)
    temperatures = [0.0, 0.5, 1.0]
    params = [SamplingParams(temperature=t) for t in temperatures]
    told = token_logprobs(step_logits(raw, params), [0, 1, 2], [1, 1, 1], [50, 50, 50], temperatures)
    for one in told:
        assert np.exp([p for _, p in one.top]).sum() == pytest.approx(1, abs=1e-5)


def test_no_logprobs_are_none():
    assert token_logprobs(step_logits(np.zeros((0, 50)), []), [], [], [], []) == []
