"""What a step leaves behind in host memory."""

from forebay.engine.block_pool import BlockPool
from forebay.engine.core import EngineCore
from forebay.engine.generation import Generation, ModelTokens
from forebay.engine.request import GenerationRequest, SamplingParams
from forebay.engine.scheduler import Scheduler, SchedulerLimits, SwapCosts
from tests.support.fake_runner import VOCAB, FakeRunner


def preempted_by_swap() -> tuple[EngineCore, Generation, Generation]:
    """A core with one slot, the batch generation that lost it, and the one that has it."""
    limits = SchedulerLimits(1, 64, 64, 64, 0.0, 1)
    scheduler = Scheduler(BlockPool(8, 4), limits, SwapCosts(100, 1e-6, 1e-3))
    core = EngineCore(FakeRunner(8, 4), scheduler, ModelTokens(VOCAB, lambda ids, _: "." * len(ids), frozenset()))

    def add(first: int, priority: int) -> Generation:
        prompt = tuple(range(first, first + 6))
        return core.add(GenerationRequest("r", prompt, SamplingParams(temperature=0), priority), 9, 0.0)

    batch = add(0, 2)
    core.step(0.0)
    person = add(20, 0)
    core.step(0.0)
    assert list(core._saved) == [batch.sequence]
    return core, batch, person


def test_what_was_kept_of_a_preempted_sequence_goes_when_it_runs_again():
    core, batch, person = preempted_by_swap()
    core.remove(person)
    core.step(0.0)
    assert batch.sequence.block_table
    assert core._saved == {}


def test_what_was_kept_of_a_preempted_sequence_goes_when_it_is_aborted():
    core, batch, _ = preempted_by_swap()
    core.remove(batch)
    assert core._saved == {}
