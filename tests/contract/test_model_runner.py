"""What the engine relies on in a `ModelRunner`: the real one and the fake keep the same contract."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from forebay.engine.runner import ModelRunner, SequenceSlice
from forebay.engine.runtime.loading import load_runner
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.loading import load
from tests.support.fake_runner import FakeRunner
from tests.support.tiny_models import tiny_model, write_huggingface

MakeRunner = Callable[[], ModelRunner]


@pytest.fixture(params=["fake", "openvino f32", "openvino u8"])
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelRunner]:
    if request.param == "fake":
        made: ModelRunner = FakeRunner(num_blocks=64, block_size=32)
    else:
        made = _openvino_runner(tmp_path_factory.mktemp("tiny"), request.param.split()[1])
    yield made
    made.close()


def _openvino_runner(folder: Path, kv_precision: str) -> ModelRunner:
    write_huggingface(tiny_model("llama"), folder)
    settings = EngineSettings(weight_precision="f32", kv_precision=kv_precision, kv_cache_gb=0.01, threads=1)
    return load_runner(load(str(folder), folder), settings)


def tokens(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 90, count).tolist()


def last_logits(runner: ModelRunner, token_ids: list[int], start: int, table: list[int]) -> np.ndarray:
    return runner.run([SequenceSlice(token_ids, start, table, num_sampled=1, temperature=0.0)]).logits[0].copy()


def test_capacity_is_what_it_holds(runner: ModelRunner):
    capacity = runner.capacity
    assert capacity.num_blocks >= 16
    last = [capacity.num_blocks - 1]
    assert np.isfinite(last_logits(runner, tokens(capacity.block_size), 0, last)).all()
    assert capacity.vocab_size == runner.run([SequenceSlice([1], 0, [0], 1, 0.0)]).logits.shape[1]


def test_a_prompt_in_chunks_over_scattered_blocks_is_the_same_prompt(runner: ModelRunner):
    prompt = tokens(70)
    whole = last_logits(runner, prompt, 0, [0, 1, 2])
    table = [9, 4, 7]
    for start, end in ((0, 5), (5, 40), (40, 69)):
        runner.run([SequenceSlice(prompt[start:end], start, table, num_sampled=0, temperature=0.0)])
    np.testing.assert_allclose(last_logits(runner, prompt[69:], 69, table), whole, atol=0.05)


def test_sequences_of_one_step_do_not_see_each_other(runner: ModelRunner):
    prompts = [tokens(n, seed=n) for n in (33, 7, 50)]
    tables = [[0, 1], [2], [3, 4]]
    alone = [last_logits(runner, p, 0, [10, 11]) for p in prompts]
    together = runner.run([SequenceSlice(p, 0, t, 1, 0.0) for p, t in zip(prompts, tables, strict=True)]).logits
    np.testing.assert_allclose(together, np.stack(alone), atol=1e-3)


def test_blocks_that_went_out_and_came_in_elsewhere_hold_the_same(runner: ModelRunner):
    prompt = tokens(69)
    runner.run([SequenceSlice(prompt[:-1], 0, [0, 1, 2], num_sampled=0, temperature=0.0)])
    saved = runner.copy_out([0, 1, 2])
    expected = last_logits(runner, prompt[-1:], 68, [0, 1, 2])
    runner.run([SequenceSlice(tokens(96, seed=5), 0, [0, 1, 2], num_sampled=0, temperature=0.0)])
    runner.copy_in(saved, [0], [8])
    runner.copy_in(saved, [1, 2], [12, 5])
    assert np.array_equal(last_logits(runner, prompt[-1:], 68, [8, 12, 5]), expected)


def test_a_full_block_can_be_read_by_two(runner: ModelRunner):
    prompt = tokens(64)
    runner.run([SequenceSlice(prompt, 0, [0, 1], num_sampled=0, temperature=0.0)])
    tails = [tokens(3, seed=8), tokens(9, seed=9)]
    shared = runner.run([SequenceSlice(t, 64, [0, 1, 2 + i], 1, 0.0) for i, t in enumerate(tails)]).logits.copy()
    alone = [last_logits(runner, prompt + t, 0, [6, 7, 8]) for t in tails]
    np.testing.assert_allclose(shared, np.stack(alone), atol=0.05)


def test_candidates_are_sorted_scaled_and_normalised(runner: ModelRunner):
    parts = [SequenceSlice(tokens(5, seed=i), 0, [i], 1, temperature) for i, temperature in enumerate((0.0, 0.5, 2.0))]
    result = runner.run(parts)
    for row, temperature in enumerate((1.0, 0.5, 2.0)):
        scaled = result.logits[row].astype(np.float64) / temperature
        np.testing.assert_allclose(result.top_values[row], scaled[result.top_ids[row]], rtol=1e-4, atol=1e-4)
        assert np.all(np.diff(result.top_values[row]) <= 0)
        assert result.top_values[row, 0] == pytest.approx(scaled.max(), rel=1e-5)
        assert result.log_normaliser[row] == pytest.approx(
            np.log(np.exp(scaled - scaled.max()).sum()) + scaled.max(), rel=1e-4
        )


def test_a_step_that_samples_nothing_has_no_rows(runner: ModelRunner):
    result = runner.run([SequenceSlice(tokens(4), 0, [0], num_sampled=0, temperature=0.0)])
    assert result.logits.shape == (0, runner.capacity.vocab_size)
    assert len(result.top_ids) == len(result.top_values) == len(result.log_normaliser) == 0


def test_only_the_slices_that_ask_get_a_row_in_their_order(runner: ModelRunner):
    first, second = tokens(6, seed=1), tokens(6, seed=2)
    expected = [last_logits(runner, second, 0, [0]), last_logits(runner, first, 0, [0])]
    result = runner.run(
        [
            SequenceSlice(second, 0, [0], 1, 0.0),
            SequenceSlice(tokens(9), 0, [1], 0, 0.0),
            SequenceSlice(first, 0, [2], 1, 0.0),
        ]
    )
    np.testing.assert_allclose(result.logits, np.stack(expected), atol=1e-3)


def test_the_last_tokens_of_a_slice_get_a_row_each(runner: ModelRunner):
    prompt, other = tokens(40), tokens(5, seed=3)
    expected = [last_logits(runner, prompt[: 38 + i], 0, [0, 1]) for i in range(3)]
    expected.append(last_logits(runner, other, 0, [2]))
    runner.run([SequenceSlice(prompt[:30], 0, [3, 4], 0, 0.0)])
    result = runner.run([SequenceSlice(prompt[30:], 30, [3, 4], 3, 0.0), SequenceSlice(other, 0, [5], 1, 0.0)])
    np.testing.assert_allclose(result.logits, np.stack(expected), atol=0.05)
    taken = result.take([3, 0])
    assert np.array_equal(taken.logits, result.logits[[3, 0]])
    assert np.array_equal(taken.top_ids, result.top_ids[[3, 0]])
