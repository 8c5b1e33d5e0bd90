"""Which sequences run in the next step, and which blocks they hold. Pure: time comes in, a plan comes out.

No phases (after vLLM v1): a sequence is behind by k tokens and is given min(k, what the step has left). Decodes go
first, then prompt chunks, both in the order of priority and arrival.
"""

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass

from forebay.engine.block_pool import BlockPool
from forebay.engine.request import PriorityClass
from forebay.engine.sequence import Sequence
from forebay.engine.step_plan import Advance, Slice, StepPlan, SwapIn, SwapOut


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """The scheduler's part of the engine's settings (tokens, sequences, seconds)."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_prefill_tokens_per_step: int
    batch_prefill_tokens_per_step: int
    interactive_recency_s: float
    max_preemptions_by_own_class: int


@dataclass(frozen=True, slots=True)
class SwapCosts:
    """What decides between keeping a preempted sequence's blocks in host memory and computing them again."""

    capacity_blocks: int
    copy_s_per_block: float
    """To move one block in one direction."""
    prefill_s_per_token: float


_MAX_SCORED_TOKENS = 64
"""Prompt tokens that are scored in a step: each brings a whole row of logits."""
_MAX_CATCH_UP = 32
"""A sequence that has begun to answer and is no further behind than this still counts as decoding."""


class Scheduler:
    """Owns the waiting line, the running set and the block pool."""

    def __init__(self, pool: BlockPool, limits: SchedulerLimits, swap: SwapCosts) -> None:
        self.pool = pool
        self._limits = limits
        self._swap = swap
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._swapped_blocks = 0
        self._last_interactive_s = float("-inf")
        self.preemptions_total = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def max_sequence_tokens(self) -> int:
        """What the pool can hold of one sequence; a longer one must be refused at the door."""
        return self.pool.num_blocks * self.pool.block_size

    def add(self, sequence: Sequence, now: float) -> None:
        """Put a new sequence in line."""
        if sequence.priority_class is PriorityClass.INTERACTIVE:
            self._last_interactive_s = now
        insort(self._waiting, sequence, key=lambda s: s.order)

    def finish(self, sequence: Sequence) -> None:
        """Take a sequence out, wherever it is, between two steps: it ended or was aborted."""
        if sequence in self._running:
            self._running.remove(sequence)
            self.pool.release(sequence.block_table)
            sequence.block_table = []
        else:
            self._waiting.remove(sequence)
            self._forget_saved(sequence)

    def schedule(self, now: float) -> StepPlan:
        """The next step. Empty slices mean that there is nothing to do."""
        plan = StepPlan()
        self._admit(plan)
        self._running.sort(key=lambda s: s.order)
        tokens_left = self._limits.max_num_batched_tokens
        tokens_left -= self._add_decodes(plan, tokens_left)
        tokens_left -= self._add_chunks(plan, tokens_left, now)
        self._add_drafts(plan, tokens_left)
        return plan

    def _add_decodes(self, plan: StepPlan, tokens_left: int) -> int:
        """A token for each sequence that decodes, or the few that it is behind; how many that are."""
        decoding = [s for s in self._eligible() if _decodes(s)]
        spare = max(tokens_left - len(decoding), 0)
        for sequence in decoding:
            count = 1 + min(sequence.num_behind - 1, spare)
            if tokens_left and sequence in self._running and self._grow(sequence, plan):
                plan.slices.append(Slice(sequence, count))
                tokens_left -= count
                spare -= count - 1
        return plan.num_tokens

    def _add_chunks(self, plan: StepPlan, tokens_left: int, now: float) -> int:
        """Parts of prompts, and of what is computed again, as far as the step goes; how many tokens these are."""
        before = plan.num_tokens
        left = min(tokens_left, self._limits.max_prefill_tokens_per_step) if plan.slices else tokens_left
        batch_left = left if self._interactive_is_past(now) else self._limits.batch_prefill_tokens_per_step
        scored_left = _MAX_SCORED_TOKENS
        for sequence in [s for s in self._eligible() if not _decodes(s)]:
            is_batch = sequence.priority_class is PriorityClass.BATCH
            chunk = min(sequence.num_behind, left, batch_left if is_batch else left)
            if sequence.scores_prompt:
                chunk = min(chunk, scored_left)
            if chunk > 0 and sequence in self._running and self._grow(sequence, plan):
                plan.slices.append(Slice(sequence, chunk))
                left -= chunk
                batch_left -= chunk if is_batch else 0
                scored_left -= chunk if sequence.scores_prompt else 0
        return plan.num_tokens - before

    def _add_drafts(self, plan: StepPlan, tokens_left: int) -> None:
        """Let sequences that decode try their drafts, as far as tokens and idle blocks go: nobody gives way for a
        guess."""
        for index, part in enumerate(plan.slices):
            num_drafts = min(len(part.sequence.draft), tokens_left) if part.samples else 0
            while num_drafts > 0 and not self._make_draft_slots(part.sequence, num_drafts):
                num_drafts -= 1
            if num_drafts > 0:
                plan.slices[index] = Slice(part.sequence, part.num_tokens, num_drafts)
                tokens_left -= num_drafts

    def _make_draft_slots(self, sequence: Sequence, num_drafts: int) -> bool:
        """Take the blocks for so many drafts, if they are idle."""
        missing = self.pool.blocks_for(len(sequence.token_ids) + num_drafts) - len(sequence.block_table)
        if missing > 0 and not self.pool.can_take([], missing):
            return False
        sequence.block_table += self.pool.take([], max(missing, 0))
        return True

    def complete(self, plan: StepPlan, advances: Mapping[Sequence, Advance]) -> None:
        """Note that a plan has run, and what it brought those of its sequences that it reached the end of."""
        for part in plan.slices:
            sequence = part.sequence
            sequence.num_computed += part.num_tokens
            sequence.draft = ()
            if (advance := advances.get(sequence)) is not None:
                sequence.num_computed += advance.num_verified if advance.token_ids else -1
                sequence.token_ids += advance.token_ids
            self._publish(sequence)

    # Who may run

    def _eligible(self) -> list[Sequence]:
        """The running sequences in order; without the batch class while an interactive one awaits its first token."""
        urgent = any(s.priority_class is PriorityClass.INTERACTIVE and s.awaits_first_token for s in self._running)
        return [s for s in self._running if not (urgent and s.priority_class is PriorityClass.BATCH)]

    def _interactive_is_past(self, now: float) -> bool:
        return now - self._last_interactive_s > self._limits.interactive_recency_s

    # Admission

    def _admit(self, plan: StepPlan) -> None:
        """Admit from the head of the line only: who cannot be admitted holds back all behind it."""
        while self._waiting:
            head = self._waiting[0]
            hits, fresh = self._blocks_to_admit(head)
            if not self._make_room(head, hits, fresh, plan):
                return
            self._waiting.pop(0)
            self._start(head, self.pool.take(hits, fresh), len(hits), plan)

    def _blocks_to_admit(self, sequence: Sequence) -> tuple[list[int], int]:
        """The cached blocks it can share, and how many more hold the rest of its known tokens."""
        block_size = self.pool.block_size
        # At least one token must be computed, or there would be no logits to draw the next one from.
        sharable = 0 if sequence.scores_prompt else (len(sequence.token_ids) - 1) // block_size
        hits = self.pool.lookup(sequence.block_hashes(block_size, sharable))
        return hits, self.pool.blocks_for(len(sequence.token_ids)) - len(hits)

    def _make_room(self, head: Sequence, hits: list[int], fresh: int, plan: StepPlan) -> bool:
        """Make a slot and blocks for `head`, at the cost of batch sequences where it is of a higher class."""
        victims = self._batch_victims() if head.priority_class is not PriorityClass.BATCH else []
        needed: list[Sequence] = []
        while not self._fits(hits, fresh, needed):
            if len(needed) == len(victims):
                return False
            needed.append(victims[len(needed)])
        for victim in needed:
            self._preempt(victim, plan)
        return True

    def _fits(self, hits: list[int], fresh: int, preempted: list[Sequence]) -> bool:
        """Whether slot and blocks are there once `preempted` are gone (blocks that those share count as kept)."""
        if len(self._running) - len(preempted) >= self._limits.max_num_seqs:
            return False
        kept_hits = set(hits)
        freed = sum(self.pool.held_alone([b for b in s.block_table if b not in kept_hits]) for s in preempted)
        return self.pool.can_take(hits, fresh - freed)

    def _batch_victims(self) -> list[Sequence]:
        batch = [s for s in self._running if s.priority_class is PriorityClass.BATCH]
        return sorted(batch, key=lambda s: s.arrival, reverse=True)

    def _start(self, sequence: Sequence, blocks: list[int], num_hits: int, plan: StepPlan) -> None:
        sequence.block_table = blocks
        sequence.num_published = num_hits
        cached_tokens = num_hits * self.pool.block_size
        if sequence.preemptions == 0:
            sequence.cached_tokens = cached_tokens
        sequence.num_computed = max(sequence.num_computed, cached_tokens)
        if sequence.num_saved_blocks > num_hits:
            plan.swap_in.append(SwapIn(sequence, num_hits, blocks[num_hits : sequence.num_saved_blocks]))
        self._forget_saved(sequence)
        self._running.append(sequence)

    # Growth and preemption

    def _grow(self, sequence: Sequence, plan: StepPlan) -> bool:
        """See to the slots of all its known tokens; False if the sequence itself had to give way."""
        missing = self.pool.blocks_for(len(sequence.token_ids)) - len(sequence.block_table)
        if missing <= 0:
            return True
        while not self.pool.can_take([], missing):
            victim = self._victim_for(sequence)
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        sequence.block_table += self.pool.take([], missing)
        return True

    def _victim_for(self, sequence: Sequence) -> Sequence:
        """The lowest class's most recent sequence, but none of a higher class than the asking one, nor one of its own
        class that has given way often enough; if none is left, the asking one itself."""
        candidates = [
            s
            for s in self._running
            if s is not sequence
            and (
                s.priority_class > sequence.priority_class
                or (
                    s.priority_class is sequence.priority_class
                    and s.arrival > sequence.arrival
                    and s.preemptions < self._limits.max_preemptions_by_own_class
                )
            )
        ]
        return max(candidates, key=lambda s: (s.priority_class, s.arrival), default=sequence)

    def _preempt(self, sequence: Sequence, plan: StepPlan) -> None:
        """Back to its place in line, with its work kept in host memory where that is the cheaper way back."""
        self._running.remove(sequence)
        plan.slices = [part for part in plan.slices if part.sequence is not sequence]
        kept = sequence.block_table[: self.pool.blocks_for(sequence.num_computed)]
        if not self._undo_start(sequence, plan):
            if self._swap_is_cheaper(sequence, len(kept)):
                plan.swap_out.append(SwapOut(sequence, kept))
                self._keep_saved(sequence, len(kept))
            else:
                sequence.num_computed = 0
        self.pool.release(sequence.block_table)
        sequence.block_table = []
        sequence.draft = ()
        sequence.preemptions += 1
        self.preemptions_total += 1
        insort(self._waiting, sequence, key=lambda s: s.order)

    def _undo_start(self, sequence: Sequence, plan: StepPlan) -> bool:
        """If this very step was to bring the sequence back from host memory, leave it there."""
        for swap_in in plan.swap_in:
            if swap_in.sequence is sequence:
                plan.swap_in.remove(swap_in)
                self._keep_saved(sequence, swap_in.first_row + len(swap_in.blocks))
                return True
        return False

    def _swap_is_cheaper(self, sequence: Sequence, num_blocks: int) -> bool:
        if self._swapped_blocks + num_blocks > self._swap.capacity_blocks:
            return False
        swap_s = 2 * num_blocks * self._swap.copy_s_per_block
        return swap_s < sequence.num_computed * self._swap.prefill_s_per_token

    def _keep_saved(self, sequence: Sequence, num_blocks: int) -> None:
        sequence.num_saved_blocks = num_blocks
        self._swapped_blocks += num_blocks

    def _forget_saved(self, sequence: Sequence) -> None:
        self._swapped_blocks -= sequence.num_saved_blocks
        sequence.num_saved_blocks = 0

    def _publish(self, sequence: Sequence) -> None:
        """Make the blocks that have become full findable by others."""
        block_size = self.pool.block_size
        full = sequence.num_computed // block_size
        if full > sequence.num_published:
            hashes = sequence.block_hashes(block_size, full)
            for index in range(sequence.num_published, full):
                self.pool.publish(sequence.block_table[index], hashes[index])
            sequence.num_published = full


def _decodes(sequence: Sequence) -> bool:
    """Whether it has begun to answer, and is not being computed again."""
    return not sequence.awaits_first_token and sequence.num_behind <= _MAX_CATCH_UP
