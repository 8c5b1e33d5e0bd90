"""The scheduler's rules, one by one. Blocks hold 4 tokens."""

from collections.abc import Sequence as Seq

from forebay.engine.block_pool import BlockPool
from forebay.engine.request import GenerationRequest, SamplingParams
from forebay.engine.scheduler import Scheduler, SchedulerLimits, StepPlan, SwapCosts
from forebay.engine.sequence import Sequence

LIMITS = SchedulerLimits(
    max_num_seqs=4,
    max_num_batched_tokens=64,
    max_prefill_tokens_per_step=16,
    batch_prefill_tokens_per_step=3,
    interactive_recency_s=5.0,
    max_preemptions_by_own_class=1,
)
SWAP = SwapCosts(capacity_blocks=100, copy_s_per_block=1e-6, prefill_s_per_token=1e-3)
RECOMPUTE = SwapCosts(capacity_blocks=0, copy_s_per_block=1e-6, prefill_s_per_token=1e-3)
INTERACTIVE, STANDARD, BATCH = 0, 1, 2


class Bench:
    """A scheduler whose every sampled token is 1."""

    def __init__(self, num_blocks: int = 100, limits: SchedulerLimits = LIMITS, swap: SwapCosts = SWAP) -> None:
        self.scheduler = Scheduler(BlockPool(num_blocks, 4), limits, swap)
        self._arrivals = 0

    def add(self, length: int, priority: int, now: float = 0.0, *, first: int | None = None) -> Sequence:
        """A prompt of `length` tokens, all different from any other's unless `first` says where it begins."""
        start = 1000 * (self._arrivals + 1) if first is None else first
        request = GenerationRequest("r", tuple(range(start, start + length)), SamplingParams(), priority)
        sequence = Sequence(request, self._arrivals, max_tokens=100)
        self._arrivals += 1
        self.scheduler.add(sequence, now)
        return sequence

    def step(self, now: float = 0.0) -> StepPlan:
        plan = self.scheduler.schedule(now)
        self.scheduler.complete(plan, {part.sequence: 1 for part in plan.slices if part.samples})
        return plan

    def share(self, now: float = 0.0) -> dict[Sequence, int]:
        """How many tokens each sequence gets in the next step."""
        return {part.sequence: part.num_tokens for part in self.step(now).slices}


def chunks(plans: Seq[dict[Sequence, int]], sequence: Sequence) -> list[int]:
    return [plan.get(sequence, 0) for plan in plans]


def test_a_long_prompt_is_cut_to_the_prefill_cap_while_others_decode_and_not_when_alone():
    bench = Bench()
    alone = bench.add(40, STANDARD)
    assert bench.share() == {alone: 40}
    late = bench.add(40, STANDARD)
    assert chunks([bench.share() for _ in range(3)], late) == [16, 16, 8]
    assert bench.share() == {alone: 1, late: 1}


def test_decodes_go_before_prompt_chunks_and_never_exceed_the_budget():
    limits = SchedulerLimits(4, 5, 16, 3, 5.0, 1)
    bench = Bench(limits=limits)
    for _ in range(3):
        bench.add(1, STANDARD)
        bench.step()
    late = bench.add(12, STANDARD)
    share = bench.share()
    assert share[late] == 2
    assert sum(share.values()) == 5


def test_batch_sits_out_the_steps_in_which_an_interactive_prompt_is_computed():
    bench = Bench()
    batch = bench.add(4, BATCH)
    standard = bench.add(4, STANDARD)
    bench.step()
    interactive = bench.add(80, INTERACTIVE)
    assert bench.share() == {standard: 1, interactive: 16}
    while interactive.awaits_first_token:
        assert batch not in bench.share()
    assert bench.share() == {batch: 1, standard: 1, interactive: 1}
    assert batch.preemptions == 0


def test_batch_prompts_come_in_small_chunks_while_interactive_traffic_is_recent():
    bench = Bench()
    person = bench.add(4, INTERACTIVE, now=0.0)
    bench.step(now=0.0)
    bench.scheduler.finish(person)
    first, second = bench.add(30, BATCH), bench.add(30, BATCH)
    assert bench.share(now=4.0) == {first: 3}
    assert bench.share(now=6.0) == {first: 27, second: 30}


def test_a_full_house_gives_up_its_latest_batch_sequence_and_only_that():
    bench = Bench()
    batch = [bench.add(4, BATCH) for _ in range(4)]
    bench.step()
    bench.add(4, STANDARD)
    plan = bench.step()
    assert [s.preemptions for s in batch] == [0, 0, 0, 1]
    assert [out.sequence for out in plan.swap_out] == [batch[3]]
    later = bench.add(4, BATCH)
    bench.step()
    assert later.num_computed == 0
    assert bench.scheduler.num_waiting == 2


def test_standard_keeps_its_slot_when_interactive_waits():
    bench = Bench()
    standard = [bench.add(4, STANDARD) for _ in range(4)]
    bench.step()
    waiting = bench.add(4, INTERACTIVE)
    bench.step()
    assert [s.preemptions for s in standard] == [0, 0, 0, 0]
    assert waiting.num_computed == 0
    bench.scheduler.finish(standard[0])
    assert waiting in bench.share()


def test_a_head_that_does_not_fit_holds_back_all_behind_it_and_preempts_nobody_in_vain():
    bench = Bench(num_blocks=10)
    running = bench.add(20, STANDARD)
    small_batch = bench.add(4, BATCH)
    bench.step()
    head = bench.add(36, STANDARD)
    behind = bench.add(4, STANDARD)
    bench.step()
    assert head.num_computed == behind.num_computed == 0
    assert small_batch.preemptions == 0
    bench.scheduler.finish(running)
    bench.step()
    assert head.num_computed > 0


def test_out_of_blocks_the_lowest_class_then_the_latest_gives_way():
    bench = Bench(num_blocks=6, limits=SchedulerLimits(4, 64, 64, 64, 0.0, 1))
    first, batch, second = bench.add(8, STANDARD), bench.add(8, BATCH), bench.add(7, STANDARD)
    bench.step(now=1.0)
    assert bench.scheduler.pool.counts.used == 6
    bench.step(now=2.0)  # `first` needs a third block
    assert (first.preemptions, second.preemptions, batch.preemptions) == (0, 0, 1)


def test_who_has_given_way_often_enough_is_not_asked_again_by_its_own_class():
    bench = Bench(num_blocks=4, limits=SchedulerLimits(4, 64, 64, 64, 0.0, 1), swap=RECOMPUTE)
    older, newer = bench.add(8, STANDARD), bench.add(7, STANDARD)
    bench.step()
    newer.preemptions = 1
    bench.step()  # `older` needs a block, and may not take it from `newer`
    assert (older.preemptions, newer.preemptions) == (1, 1)
    assert bench.share() == {newer: 1}


def test_a_swapped_sequence_goes_on_where_it_was_and_a_dropped_one_computes_again():
    for swap, computed in ((SWAP, 9), (RECOMPUTE, 0)):
        bench = Bench(swap=swap)
        batch = [bench.add(9, BATCH) for _ in range(4)]
        bench.step()
        person = bench.add(4, INTERACTIVE)
        bench.step()
        assert batch[3].num_computed == computed
        bench.scheduler.finish(person)
        bench.scheduler.pool.take([], bench.scheduler.pool.counts.free)  # what was cached of it stays
        plan = bench.step()
        assert batch[3].num_computed == 10
        assert [part.num_tokens for part in plan.slices if part.sequence is batch[3]] == [1 if swap is SWAP else 2]
        # Its two full blocks are still cached: only the third comes back from host memory.
        assert [(back.first_row, len(back.blocks)) for back in plan.swap_in] == ([(2, 1)] if swap is SWAP else [])


def test_a_cached_prompt_leaves_one_token_to_compute():
    bench = Bench()
    bench.add(8, STANDARD, first=500)
    bench.step()
    again = bench.add(8, STANDARD, first=500)
    assert bench.share()[again] == 4
    assert again.cached_tokens == 4


def test_an_older_sequence_never_gives_way_to_a_younger_one_of_its_class():
    bench = Bench(num_blocks=4)
    older, younger = bench.add(7, STANDARD), bench.add(8, STANDARD)
    bench.step()
    bench.step()  # `younger` needs a block and there is none
    assert (older.preemptions, younger.preemptions) == (0, 1)
