"""The scheduler's rules, one by one. Blocks hold 4 tokens."""

from collections.abc import Sequence as Seq
from dataclasses import replace

from forebay.engine.block_pool import BlockPool
from forebay.engine.request import GenerationRequest, SamplingParams
from forebay.engine.scheduler import Scheduler, SchedulerLimits, SwapCosts
from forebay.engine.sequence import Sequence
from forebay.engine.step_plan import Advance, Slice, StepPlan

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
PLAIN = SamplingParams()


class Bench:
    """A scheduler whose every sampled token is 1."""

    def __init__(self, num_blocks: int = 100, limits: SchedulerLimits = LIMITS, swap: SwapCosts = SWAP) -> None:
        self.scheduler = Scheduler(BlockPool(num_blocks, 4), limits, swap)
        self._arrivals = 0

    def add(
        self,
        length: int,
        priority: int,
        now: float = 0.0,
        *,
        first: int | None = None,
        sampling: SamplingParams = PLAIN,
    ) -> Sequence:
        """A prompt of `length` tokens, all different from any other's unless `first` says where it begins."""
        start = 1000 * (self._arrivals + 1) if first is None else first
        request = GenerationRequest("r", tuple(range(start, start + length)), sampling, priority)
        sequence = Sequence(request, self._arrivals, max_tokens=100)
        self._arrivals += 1
        self.scheduler.add(sequence, now)
        return sequence

    def step(self, now: float = 0.0) -> StepPlan:
        plan = self.scheduler.schedule(now)
        self.scheduler.complete(plan, {part.sequence: Advance([1]) for part in plan.slices if part.samples})
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


def test_a_sequence_preempted_in_the_very_step_that_brings_it_back_keeps_what_was_saved():
    bench = Bench(num_blocks=5, limits=replace(LIMITS, max_num_seqs=2))
    standard = bench.add(4, STANDARD)
    batch = bench.add(8, BATCH)
    bench.step()
    bench.step()
    person = bench.add(1, INTERACTIVE)
    bench.step()
    assert batch.num_saved_blocks == 3
    while standard.num_computed < 8:
        bench.step()
    bench.scheduler.finish(person)
    plan = bench.step()
    assert [part.sequence for part in plan.slices] == [standard]
    assert (plan.swap_in, plan.swap_out) == ([], [])
    assert (batch.num_saved_blocks, batch.num_computed, batch.preemptions) == (3, 9, 2)
    bench.scheduler.finish(standard)
    plan = bench.step()
    assert [back.first_row + len(back.blocks) for back in plan.swap_in] == [3]


# Drafts


def decoding(bench: Bench, length: int, draft: Seq[int]) -> Sequence:
    sequence = bench.add(length, STANDARD)
    bench.step()
    sequence.draft = draft
    return sequence


def test_a_draft_is_tried_and_what_was_right_of_it_need_not_be_computed_again():
    bench = Bench()
    sequence = decoding(bench, 6, [7, 8, 9])
    plan = bench.scheduler.schedule(0.0)
    assert plan.slices == [Slice(sequence, 1, num_drafts=3)]
    bench.scheduler.complete(plan, {sequence: Advance([7, 8, 1], num_verified=2)})
    assert sequence.token_ids[6:] == [1, 7, 8, 1]
    assert (sequence.num_computed, sequence.num_behind) == (9, 1)
    assert bench.scheduler.schedule(0.0).slices == [Slice(sequence, 1)]


def test_a_draft_takes_only_what_decodes_leave_of_the_budget():
    bench = Bench(limits=replace(LIMITS, max_num_batched_tokens=5))
    first, second = decoding(bench, 2, []), decoding(bench, 2, [])
    first.draft, second.draft = [7, 7], [7, 7]
    assert bench.scheduler.schedule(0.0).slices == [Slice(first, 1, 2), Slice(second, 1, 1)]


def test_nobody_gives_way_for_a_draft():
    bench = Bench(num_blocks=3)
    sequence = decoding(bench, 2, [7] * 8)
    batch = bench.add(4, BATCH)
    plan = bench.scheduler.schedule(0.0)
    assert plan.slices == [Slice(sequence, 1, num_drafts=5), Slice(batch, 4)]
    assert bench.scheduler.preemptions_total == 0


# Tokens that came without a step of their own, and steps that brought none


def test_forced_tokens_are_computed_at_once_in_blocks_of_their_own():
    bench = Bench()
    sequence = decoding(bench, 3, [])
    plan = bench.scheduler.schedule(0.0)
    bench.scheduler.complete(plan, {sequence: Advance([1, 5, 6, 7, 8])})
    plan = bench.scheduler.schedule(0.0)
    assert plan.slices == [Slice(sequence, 5)]
    assert len(sequence.block_table) == 3


def test_forced_tokens_that_do_not_fit_make_a_lower_class_give_way():
    bench = Bench(num_blocks=3)
    sequence = decoding(bench, 3, [])
    batch = bench.add(4, BATCH)
    plan = bench.scheduler.schedule(0.0)
    bench.scheduler.complete(plan, {sequence: Advance([1, 5, 6, 7, 8]), batch: Advance([1])})
    plan = bench.scheduler.schedule(0.0)
    assert [part.sequence for part in plan.slices] == [sequence]
    assert batch.preemptions == 1


def test_a_step_that_drew_nothing_is_repeated():
    bench = Bench()
    sequence = bench.add(8, STANDARD)
    plan = bench.scheduler.schedule(0.0)
    bench.scheduler.complete(plan, {sequence: Advance([])})
    assert (sequence.num_computed, sequence.num_generated) == (7, 0)
    assert bench.step().slices == [Slice(sequence, 1)]
    assert (sequence.num_computed, sequence.num_generated) == (8, 1)


# Prompts whose log-probabilities are wanted


def test_a_scored_prompt_is_computed_whole_and_in_small_chunks():
    bench = Bench(limits=replace(LIMITS, max_num_batched_tokens=512))
    other = bench.add(100, STANDARD, first=0)
    bench.step()
    scored = bench.add(100, STANDARD, first=0, sampling=SamplingParams(prompt_logprobs=0))
    bench.scheduler.finish(other)
    assert chunks([bench.share() for _ in range(3)], scored) == [64, 36, 1]
    assert scored.cached_tokens == 0


def test_scored_prompts_share_what_a_step_scores():
    bench = Bench(limits=replace(LIMITS, max_num_batched_tokens=512))
    scored = [bench.add(50, STANDARD, sampling=SamplingParams(prompt_logprobs=0)) for _ in range(2)]
    assert bench.share() == {scored[0]: 50, scored[1]: 14}


def test_drafts_get_only_what_prompts_leave():
    bench = Bench(limits=replace(LIMITS, max_num_batched_tokens=8))
    sequence = decoding(bench, 2, [7] * 3)
    late = bench.add(5, STANDARD)
    assert bench.scheduler.schedule(0.0).slices == [Slice(sequence, 1, 2), Slice(late, 5)]


def test_who_is_preempted_guesses_anew():
    bench = Bench(limits=replace(LIMITS, max_num_seqs=1))
    batch = bench.add(4, BATCH)
    bench.step()
    batch.draft = [7, 8]
    bench.add(4, INTERACTIVE)
    bench.step()
    assert (batch.preemptions, batch.draft) == (1, ())


def test_forced_tokens_are_a_decode_and_go_before_prompts():
    bench = Bench(limits=replace(LIMITS, max_num_batched_tokens=20))
    sequence = decoding(bench, 3, [])
    other = decoding(bench, 3, [])
    plan = bench.scheduler.schedule(0.0)
    bench.scheduler.complete(plan, {sequence: Advance([1] * 12), other: Advance([1])})
    person = bench.add(200, INTERACTIVE)
    assert bench.share() == {sequence: 12, other: 1, person: 7}


def test_forced_tokens_take_no_other_decode_its_token():
    bench = Bench(limits=replace(LIMITS, max_num_batched_tokens=6))
    first, second = decoding(bench, 2, []), decoding(bench, 2, [])
    plan = bench.scheduler.schedule(0.0)
    bench.scheduler.complete(plan, {first: Advance([1] * 12), second: Advance([1])})
    assert bench.share() == {first: 5, second: 1}
