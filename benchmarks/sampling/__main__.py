"""`python -m benchmarks.sampling`: CPU microseconds a step for the draws of 32 rows, by kind and vocabulary.

The logits are made up, as peaked as a small model's: more than half of the mass is on the likeliest token, and some 5%
beyond the K that the graph sorts.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from forebay.engine.request import SamplingParams
from forebay.engine.runner import StepLogits
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.history import TokenHistory
from forebay.engine.sampling.logprobs import token_logprobs
from forebay.engine.sampling.mask import allowed_mask
from forebay.engine.sampling.sample import sample

ROWS = 32
NUM_TOP = 64
HISTORY = 300
REPEATS = 60
VOCABULARIES = (49_152, 151_936)


def main() -> None:
    random = np.random.default_rng(1)
    for vocab in VOCABULARIES:
        raw = _raw_logits(random, vocab)
        histories = [_history(random, raw[row]) for row in range(ROWS)]
        mostly = [np.flatnonzero(random.random(vocab) < 0.95) for _ in range(ROWS)]
        few = [random.integers(0, vocab, 3) for _ in range(ROWS)]
        greedy, warm = SamplingParams(temperature=0.0), SamplingParams(temperature=0.7)
        nucleus = SamplingParams(temperature=0.7, top_p=0.9)
        penalties = SamplingParams(top_p=0.9, frequency_penalty=0.3, repetition_penalty=1.1, logprobs=5)
        biased = SamplingParams(temperature=0.7, logit_bias=tuple((t, 2.0) for t in range(20)), presence_penalty=0.2)
        for name, params, pasts, masks in (
            ("plain, greedy", greedy, None, None),
            ("plain, temperature 0.7", warm, None, None),
            ("plain, temperature 0.7, top_p 0.9", nucleus, None, None),
            ("penalties, top_p 0.9, logprobs 5", penalties, histories, None),
            ("the same, greedy", _with(penalties, temperature=0.0), histories, None),
            ("the same, temperature 0.7", _with(penalties, temperature=0.7), histories, None),
            ("penalty and bias of 20 tokens", biased, histories, None),
            ("95% allowed, greedy", greedy, None, mostly),
            ("95% allowed, temperature 0.7, top_p 0.9", nucleus, None, mostly),
            ("3 tokens allowed, greedy", greedy, None, few),
            ("3 tokens allowed, temperature 0.7, top_p 0.9", nucleus, None, few),
        ):
            step = partial(_step, _step_logits(raw, params), _draws(params, vocab, pasts, masks))
            print(f"{vocab:>7}  {name:<46}{_microseconds(step):>8.0f} µs", flush=True)


def _raw_logits(random: np.random.Generator, vocab: int) -> np.ndarray:
    raw = random.normal(np.log(VOCABULARIES[0] / vocab), 2, (ROWS, vocab)).astype(np.float32)
    # Over the noise, a likeliest token and a falling series behind it.
    for row in raw:
        row[random.choice(vocab, 200, replace=False)] = 15.5 - 2 * np.log(np.arange(1, 201))
    return raw


def _history(random: np.random.Generator, row: np.ndarray) -> TokenHistory:
    """A prompt and as many generated tokens, some of them likely again."""
    history = TokenHistory(random.integers(0, row.size, HISTORY // 2).tolist())
    likely = np.argsort(-row)[5:45:2].tolist()
    for token in [*likely, *random.integers(0, row.size, HISTORY // 2 - len(likely)).tolist()]:
        history.push(token)
    return history


def _with(params: SamplingParams, temperature: float) -> SamplingParams:
    return SamplingParams(
        temperature=temperature,
        top_p=params.top_p,
        frequency_penalty=params.frequency_penalty,
        repetition_penalty=params.repetition_penalty,
        logprobs=params.logprobs,
    )


def _draws(
    params: SamplingParams, vocab: int, pasts: list[TokenHistory] | None, allowed: list[np.ndarray] | None
) -> list[Draw]:
    return [
        Draw(
            params,
            seed=row,
            position=row,
            history=pasts[row] if pasts else None,
            banned=(),
            mask=allowed_mask(allowed[row], vocab) if allowed else None,
        )
        for row in range(ROWS)
    ]


def _step_logits(raw: np.ndarray, params: SamplingParams) -> StepLogits:
    scaled = raw / np.float32(params.temperature or 1.0)
    top_ids = np.argsort(-scaled, axis=1)[:, :NUM_TOP].astype(np.int32)
    largest = scaled.max(axis=1)
    log_normaliser = np.log(np.exp(scaled - largest[:, None]).sum(axis=1)) + largest
    return StepLogits(raw, np.take_along_axis(scaled, top_ids, axis=1), top_ids, log_normaliser)


def _step(logits: StepLogits, draws: Iterable[Draw], position: int) -> None:
    draws = [Draw(d.params, d.seed, position, d.history, d.banned, d.mask) for d in draws]
    tokens = sample(logits, draws)
    if draws[0].params.logprobs is not None:
        told = [token if token is not None else 0 for token in tokens]
        counts = [draw.params.logprobs or 0 for draw in draws]
        token_logprobs(logits, range(len(draws)), told, counts, [draw.params.temperature for draw in draws])


def _microseconds(step: Callable[[int], None]) -> float:
    """The thread's own time, which other work on the machine lengthens little: the median of steps at successive
    positions, which are other draws each time."""
    times: list[float] = []
    for position in range(REPEATS):
        start = time.thread_time()
        step(position)
        times.append((time.thread_time() - start) * 1e6)
    return statistics.median(times)


main()
