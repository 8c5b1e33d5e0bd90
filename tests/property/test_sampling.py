"""Every draw against a dense, obvious reading of what each field of `SamplingParams` says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.engine.request import SamplingParams
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.history import TokenHistory
from forebay.engine.sampling.mask import allowed_mask
from forebay.engine.sampling.sample import sample
from tests.support.step_logits import history, step_logits

ALL_BITS = 2**64 - 1


@dataclass(frozen=True)
class Case:
    """One row and all that its draw depends on."""

    row: np.ndarray
    params: SamplingParams
    seed: int
    position: int
    prompt: list[int]
    generated: list[int]
    banned: list[int]
    allowed: list[int] | None

    def draw(self) -> Draw:
        return Draw(
            self.params,
            self.seed,
            self.position,
            history(self.prompt, self.generated) if TokenHistory.wanted_by(self.params) else None,
            self.banned,
            None if self.allowed is None else allowed_mask(self.allowed, self.row.size),
        )


def final_logits(case: Case) -> np.ndarray:
    """Mask, bans, bias, penalties, temperature."""
    params = case.params
    logits = case.row.astype(np.float32).astype(np.float64)
    if case.allowed is not None:
        logits[[t for t in range(logits.size) if t not in set(case.allowed)]] = -np.inf
    logits[case.banned] = -np.inf
    for token, bias in params.logit_bias:
        logits[token] += bias
    for token in {*case.prompt, *case.generated}:
        logits[token] = logits[token] * params.repetition_penalty ** (-1 if logits[token] > 0 else 1)
    for token in set(case.generated):
        logits[token] -= params.frequency_penalty * case.generated.count(token) + params.presence_penalty
    return logits / (params.temperature or 1.0)


def restricted(logits: np.ndarray, params: SamplingParams) -> tuple[np.ndarray, float]:
    """The probabilities that `min_p`, `top_k` and `top_p` leave; and how near some token is to a limit, in nats."""
    order = np.argsort(-logits, kind="stable")
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.abs(np.diff(logits[order]))
    nearest = np.inf
    p = np.exp(logits - logits.max())
    p /= p.sum()
    if params.min_p > 0:
        threshold = logits.max() + np.log(params.min_p)
        nearest = min(nearest, np.abs(np.delete(logits, logits.argmax()) - threshold).min())
        p[logits < threshold] = 0
    if 0 < params.top_k < logits.size:
        nearest = min(nearest, steps[params.top_k - 1])
        p[order[params.top_k :]] = 0
    p /= p.sum()
    if params.top_p < 1:
        cumulative = np.cumsum(p[order])
        end = int(np.sum(cumulative < params.top_p)) + 1
        # Whether a limit falls between two tokens, and which of two near ties comes last.
        nearest = min(nearest, np.abs(cumulative - params.top_p).min(), *steps[end - 1 : end])
        p[order[end:]] = 0
    return p / p.sum(), nearest


def gumbels(seed: int, position: int, count: int) -> np.ndarray:
    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & ALL_BITS
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & ALL_BITS
        return z ^ (z >> 31)

    def word(start: int, number: int) -> int:
        return mix((start + (number + 1) * 0x9E3779B97F4A7C15) & ALL_BITS)

    of_position = word(mix(seed), position)
    uniform = np.array([((word(of_position, token) >> 11) + 0.5) * 2.0**-53 for token in range(count)])
    return -np.log(-np.log(uniform))


def tokens(vocab: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, vocab - 1), max_size=most)


@st.composite
def sampling_params(draw: st.DrawFn, vocab: int) -> SamplingParams:
    biased = draw(st.lists(st.integers(0, vocab - 1), max_size=6, unique=True))
    return SamplingParams(
        temperature=draw(st.sampled_from([0.0, 0.01, 0.5, 1.0, 1.0, 2.0])),
        top_k=draw(st.sampled_from([0, 0, 0, 1, 3, 10, 50, 10_000])),
        top_p=draw(st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.99, 1e-4])),
        min_p=draw(st.sampled_from([0.0, 0.0, 0.0, 0.1, 0.01, 1.0, 1e-6])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 1.2, 0.5, 2.0])),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 1.0, -2.0])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, 0.5, -1.0])),
        logit_bias=tuple((token, draw(st.sampled_from([-100.0, -1.0, 0.0, 2.5, 100.0]))) for token in biased),
    )


@st.composite
def cases(draw: st.DrawFn, vocab: int) -> Case:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    row = random.normal(size=vocab) * draw(st.sampled_from([0.1, 1.0, 3.0, 30.0, 1000.0]))
    return Case(
        row=row.astype(np.float32),
        params=draw(sampling_params(vocab)),
        seed=draw(st.integers(0, 2**63)),
        position=draw(st.integers(0, 1000)),
        prompt=draw(tokens(vocab, 30)),
        generated=draw(tokens(vocab, 30)),
        banned=draw(st.one_of(st.just([]), st.just([]), tokens(vocab, 8))),
        allowed=draw(
            st.one_of(
                st.none(),
                st.none(),
                tokens(vocab, 4),
                st.floats(0.1, 0.99).map(lambda share: np.flatnonzero(random.random(vocab) < share).tolist()),
            )
        ),
    )


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Case], int]:
    vocab, num_top = draw(st.sampled_from([(40, 4), (40, 40), (97, 8), (300, 20), (2500, 64)]))
    return draw(st.lists(cases(vocab), min_size=1, max_size=4)), num_top


def sample_cases(batch: Sequence[Case], num_top: int) -> list[int | None]:
    logits = step_logits(np.stack([case.row for case in batch]), [case.params for case in batch], num_top)
    return sample(logits, [case.draw() for case in batch])


@settings(max_examples=200, deadline=None)
@given(batches())
def test_every_draw_is_what_its_definition_says(batch: tuple[list[Case], int]):
    together, num_top = batch
    drawn = sample_cases(together, num_top)
    for case, token in zip(together, drawn, strict=True):
        assert [token] == sample_cases([case], num_top)
        logits = final_logits(case)
        if logits.max() == -np.inf:
            assert token is None
            continue
        assert token is not None
        # What float32 can tell apart.
        tolerance = 1e-5 * (1 + np.abs(case.row).max() / (case.params.temperature or 1.0))
        if case.params.temperature == 0:
            assert logits[token] >= logits.max() - tolerance
            continue
        check_random_draw(case, token, logits, tolerance, all_known=num_top == case.row.size)


def check_random_draw(case: Case, token: int, logits: np.ndarray, tolerance: float, all_known: bool) -> None:
    p, nearest = restricted(logits, case.params)
    if nearest < tolerance:
        return
    assert logits[token] > -np.inf
    is_restricted = case.params.top_p < 1 or case.params.min_p > 0 or 0 < case.params.top_k < logits.size
    if is_restricted:
        assert p[token] > 0
    # Without a restriction the unlikely tokens compete as one: then the distribution is tested, not each draw.
    if is_restricted or all_known:
        with np.errstate(divide="ignore"):
            sums = np.where(p > 0, logits, -np.inf) + gumbels(case.seed, case.position, logits.size)
        assert sums[token] >= sums.max() - 2 * tolerance


@pytest.mark.parametrize("num_top", [5, 60])
@pytest.mark.parametrize(
    "change",
    [
        {"params": SamplingParams(logit_bias=((3, 1.5), (58, 6.0), (59, -100.0)))},
        {"params": SamplingParams(frequency_penalty=0.7, presence_penalty=0.4), "generated": [0, 0, 1, 2, 40]},
        {"params": SamplingParams(repetition_penalty=0.6), "prompt": [4, 50], "generated": [9]},
        # Nearly all of the mass goes: the difference of what remains must not decide.
        {"params": SamplingParams(logit_bias=tuple((t, -100.0) for t in range(40)))},
        {"params": SamplingParams(), "banned": list(range(40)), "allowed": list(range(30, 60))},
        {"params": SamplingParams(temperature=1.7), "allowed": list(range(0, 60, 3))},
        {"params": SamplingParams(frequency_penalty=-0.5), "generated": [55] * 7 + [3], "allowed": list(range(2, 58))},
    ],
)
def test_unrestricted_draws_of_changed_rows_follow_their_distribution(change: dict[str, object], num_top: int):
    row = 5.0 - 0.25 * np.arange(60)
    case = replace(Case(row, SamplingParams(), 3, 0, [], [], [], None), **change)
    count = 3000
    logits = step_logits(np.tile(row, (count, 1)), [case.params] * count, num_top)
    drawn = np.array(sample(logits, [replace(case.draw(), position=i) for i in range(count)]))
    expected = np.exp(final_logits(case))
    expected /= expected.sum()
    seen = np.bincount(drawn, minlength=60)
    assert not seen[expected == 0].any()
    # Chi-square over the tokens expected five times and more, all others as one; six standard deviations of it.
    often = expected * count >= 5
    observed = np.append(seen[often], seen[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum()) * count
    terms = (observed - wanted)[wanted > 0] ** 2 / wanted[wanted > 0]
    assert terms.sum() < terms.size + 6 * np.sqrt(2 * terms.size)
