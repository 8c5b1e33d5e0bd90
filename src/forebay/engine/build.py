"""From a model's files to a running engine."""

import time
from collections.abc import Callable, Sequence

from forebay.core.clock import Clock
from forebay.engine.block_pool import BlockPool
from forebay.engine.core import EngineCore
from forebay.engine.generation import ModelTokens
from forebay.engine.grammar.compiler import GrammarCompiler
from forebay.engine.guessing import Guesser
from forebay.engine.runner import ModelRunner, SequenceSlice
from forebay.engine.runtime.loading import load_runner
from forebay.engine.scheduler import Scheduler, SchedulerLimits, SwapCosts
from forebay.engine.service import AsyncEngine
from forebay.engine.settings import EngineSettings
from forebay.engine.speculation import StepCosts
from forebay.modelfiles.model import ModelFiles

_GIB = 1024**3
_MIN_PREFILL_TOKENS = 16
"""What a step always has left for prompts, however many sequences decode in it."""
_CALIBRATION_TOKENS = 64
_CALIBRATION_SIZES = (1, 2, 4, 5, 8, 16)


def build_engine(model: ModelFiles, settings: EngineSettings, clock: Clock) -> AsyncEngine:
    """Load the weights, compile, warm up, start the step loop. Takes seconds; raises ModelFileError."""
    runner = load_runner(model, settings)
    core = build_core(runner, model, settings)
    grammars = GrammarCompiler(model.tokenizer, runner.capacity.vocab_size, model.eos_token_ids)
    return AsyncEngine(core, grammars, clock, min(settings.max_model_len or model.context_window, model.context_window))


def build_core(runner: ModelRunner, model: ModelFiles, settings: EngineSettings) -> EngineCore:
    """The synchronous engine over a runner."""
    capacity = runner.capacity
    limits = SchedulerLimits(
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=max(settings.max_num_batched_tokens, settings.max_num_seqs + _MIN_PREFILL_TOKENS),
        max_prefill_tokens_per_step=settings.max_prefill_tokens_per_step,
        batch_prefill_tokens_per_step=settings.batch_prefill_tokens_per_step,
        interactive_recency_s=settings.interactive_recency_s,
        max_preemptions_by_own_class=settings.max_preemptions_by_own_class,
    )
    swap = measure_swap_costs(runner, int(settings.swap_space_gb * _GIB) // capacity.bytes_per_block)
    scheduler = Scheduler(BlockPool(capacity.num_blocks, capacity.block_size), limits, swap)
    guesser = Guesser(measure_step_costs(runner)) if settings.speculation == "ngram" else None
    return EngineCore(runner, scheduler, _model_tokens(model, capacity.vocab_size), guesser)


def _model_tokens(model: ModelFiles, vocab_size: int) -> ModelTokens:
    def decode(token_ids: Sequence[int], skip_special_tokens: bool) -> str:
        return model.tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)

    return ModelTokens(vocab_size, decode, model.eos_token_ids)


def measure_swap_costs(runner: ModelRunner, capacity_blocks: int) -> SwapCosts:
    """Time one prompt and one block copy, which also warms the runner up."""
    capacity = runner.capacity
    tokens = min(_CALIBRATION_TOKENS, capacity.num_blocks * capacity.block_size)
    prompt = _calibration_slice(runner, tokens, num_sampled=1)
    return SwapCosts(
        capacity_blocks=capacity_blocks,
        copy_s_per_block=_fastest_s(lambda: runner.copy_in(runner.copy_out([0]), [0], [0])) / 2,
        prefill_s_per_token=_fastest_s(lambda: runner.run([prompt])) / tokens,
    )


def measure_step_costs(runner: ModelRunner) -> StepCosts:
    """Time steps of rising sizes, each token with a row of logits, as decodes and drafts have."""
    most = runner.capacity.num_blocks * runner.capacity.block_size
    sizes = tuple(size for size in _CALIBRATION_SIZES if size <= most)
    steps = [[_calibration_slice(runner, size, num_sampled=size)] for size in sizes]
    seconds = tuple(_fastest_s(lambda step=step: runner.run(step)) for step in steps)
    in_turn_s = _fastest_s(lambda: [runner.run(step) for step in steps])
    return StepCosts(sizes, seconds, max(in_turn_s - sum(seconds), 0.0) / len(sizes))


def _calibration_slice(runner: ModelRunner, tokens: int, num_sampled: int) -> SequenceSlice:
    blocks = range(-(-tokens // runner.capacity.block_size))
    return SequenceSlice([0] * tokens, 0, blocks, num_sampled=num_sampled, temperature=0.0)


def _fastest_s(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
