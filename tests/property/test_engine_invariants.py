"""The engine's invariants under any sequence of arrivals, steps and aborts (block pool, scheduler and core; fake
runner).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.engine.block_pool import BlockPool
from forebay.engine.core import EngineCore
from forebay.engine.generation import Generation, ModelTokens
from forebay.engine.guessing import Guesser
from forebay.engine.request import GenerationRequest, GenerationUpdate, SamplingParams
from forebay.engine.sampling.mask import allowed_mask
from forebay.engine.scheduler import Scheduler, SchedulerLimits, SwapCosts
from forebay.engine.sequence import Sequence
from forebay.engine.speculation import StepCosts
from forebay.engine.step_plan import Advance, StepPlan
from tests.support.fake_runner import VOCAB, FakeRunner, continuation, next_token

BLOCK_SIZE = 4
PREFIXES = [list(range(24)), list(range(40, 60)), [7] * 17]
TENANTS = ["a", "b", ""]


@dataclass
class Known:
    """A generation that the test has asked for, and what has come of it."""

    max_tokens: int
    tokens: list[int] = field(default_factory=list)
    finished: bool = False


class WatchedScheduler(Scheduler):
    """Tells of each plan as soon as it has run, before any of its sequences can end."""

    watch: Callable[[StepPlan], None]

    def complete(self, plan: StepPlan, advances: Mapping[Sequence, Advance]) -> None:
        self.watch(plan)
        super().complete(plan, advances)


class KnowingGuesser(Guesser):
    """Guesses right, but for one guess in `wrong_every`, and also beside prompts."""

    def __init__(self, wrong_every: int) -> None:
        super().__init__(StepCosts((1,), (1.0,)))
        self._wrong_every = wrong_every

    def give(self, generations: Collection[Generation]) -> None:
        for generation in generations:
            sequence = generation.sequence
            if generation.drafting is not None and sequence.num_behind == 1 and sequence.block_table:
                guess = continuation(sequence.token_ids, min(4, generation.num_left - 1))
                sequence.draft = [
                    token if (len(sequence.token_ids) + i) % self._wrong_every else (token + 1) % VOCAB
                    for i, token in enumerate(guess)
                ]


class FollowedGrammar:
    """Allows just what the model says anyway. Its mask is late once in `late_every` times, and after each
    `force_every` tokens the next three are forced.
    """

    stopped = False
    complete = False

    def __init__(self, prompt: list[int], late_every: int, force_every: int) -> None:
        self._tokens = list(prompt)
        self._late_every = late_every
        self._force_every = force_every
        self._asked = 0

    def matcher(self) -> "FollowedGrammar":
        return self

    def begin(self) -> None:
        pass

    def mask(self, timeout_s: float) -> np.ndarray | None:
        self._asked += 1
        return allowed_mask([next_token(self._tokens)], VOCAB) if self._asked % self._late_every else None

    def accept(self, token_id: int) -> None:
        assert token_id == next_token(self._tokens)
        self._tokens.append(token_id)

    def forced(self) -> list[int]:
        return [] if len(self._tokens) % self._force_every else continuation(self._tokens, 3)


class EngineMachine(RuleBasedStateMachine):
    @initialize(
        num_blocks=st.integers(13, 24),
        max_num_seqs=st.integers(1, 6),
        budget=st.integers(6, 32),
        swap_blocks=st.sampled_from([0, 5, 1000, 1000]),
        copy_s=st.sampled_from([1e-6, 1e-6, 1e-2]),
        guesses=st.sampled_from([0, 0, 1, 2, 5, 1000]),
    )
    def start(
        self, num_blocks: int, max_num_seqs: int, budget: int, swap_blocks: int, copy_s: float, guesses: int
    ) -> None:
        self.runner = FakeRunner(num_blocks, BLOCK_SIZE)
        self.pool = BlockPool(num_blocks, BLOCK_SIZE)
        limits = SchedulerLimits(
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max(budget, max_num_seqs + 1),
            max_prefill_tokens_per_step=max(1, budget // 2),
            batch_prefill_tokens_per_step=2,
            interactive_recency_s=3.0,
            max_preemptions_by_own_class=2,
        )
        self.scheduler = WatchedScheduler(self.pool, limits, SwapCosts(swap_blocks, copy_s, prefill_s_per_token=1e-3))
        self.scheduler.watch = self._check_writes
        model_tokens = ModelTokens(VOCAB, lambda ids, _: "." * len(ids), frozenset())
        guesser = KnowingGuesser(guesses) if guesses else None
        self.core = EngineCore(self.runner, self.scheduler, model_tokens, guesser)
        self.now = 0.0
        self.broken = False
        self.known: dict[Generation, Known] = {}
        self.writer: dict[int, tuple[str, bool]] = {}
        """Who wrote each block last: its salt, and whether the block lay in its public prefix."""

    @rule(
        prefix=st.sampled_from(PREFIXES),
        cut=st.integers(1, 24),
        suffix=st.lists(st.integers(60, 96), max_size=6),
        max_tokens=st.integers(1, 20),
        priority=st.sampled_from([-1, 0, 0, 1, 1, 2, 2, 2, 5]),
        salt=st.sampled_from(TENANTS),
        public=st.sampled_from([0, 0, 8, 9]),
        grammar=st.sampled_from([None, None, (2, 4), (3, 1000), (1000, 3)]),
        scored=st.sampled_from([None, None, None, 2]),
    )
    def arrive(
        self,
        prefix: list[int],
        cut: int,
        suffix: list[int],
        max_tokens: int,
        priority: int,
        salt: str,
        public: int,
        grammar: tuple[int, int] | None,
        scored: int | None,
    ) -> None:
        prompt = prefix[:cut] + suffix
        request = GenerationRequest(
            request_id="r",
            prompt_token_ids=tuple(prompt),
            sampling=SamplingParams(max_tokens=max_tokens, temperature=0.0, prompt_logprobs=scored),
            priority=priority,
            cache_salt=salt,
            public_prefix_tokens=min(public, len(prompt)),
        )
        compiled = None if grammar is None else FollowedGrammar(prompt, *grammar)
        self.known[self.core.add(request, max_tokens, self.now, compiled)] = Known(max_tokens)

    @rule(steps=st.integers(1, 6), seconds=st.sampled_from([0.1, 5.0]))
    def step(self, steps: int, seconds: float) -> None:
        for _ in range(steps):
            self.now += seconds
            self._step()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        generation = data.draw(st.sampled_from(sorted(self.known, key=lambda g: g.sequence.arrival)))
        self.core.remove(generation)
        del self.known[generation]

    def _step(self) -> None:
        self.broken = True  # until the step has been checked: what comes after a failed check proves nothing
        before = set(self.scheduler._running)
        waiting_before = list(self.scheduler._waiting)
        updates = self.core.step(self.now)
        self._check_admission(before, waiting_before)
        for generation, update in updates:
            known = self.known[generation]
            assert isinstance(update, GenerationUpdate)
            if not known.tokens and generation.request.sampling.prompt_logprobs is not None:
                prompt = generation.request.prompt_token_ids
                likeliest = [next_token(prompt[: i + 1]) for i in range(len(prompt) - 1)]
                assert [each.top[0][0] for each in update.prompt_logprobs] == likeliest
            known.tokens += update.token_ids
            if update.finish_reason:
                known.finished = True
                assert known.tokens == continuation(generation.request.prompt_token_ids, known.max_tokens)
                del self.known[generation]
        self.broken = False

    def _check_writes(self, plan: StepPlan) -> None:
        """No block is written by two sequences, nor while a second one holds it."""
        written = [(part.sequence, blocks) for part, blocks in zip(plan.slices, self.runner.written, strict=True)]
        assert len(set().union(*self.runner.written)) == sum(len(blocks) for blocks in self.runner.written)
        for sequence, blocks in [*written, *((back.sequence, back.blocks) for back in plan.swap_in)]:
            for block in blocks:
                assert [s for s in self.scheduler._running if block in s.block_table] == [sequence]
                public_blocks = sequence.request.public_prefix_tokens // BLOCK_SIZE
                self.writer[block] = (sequence.request.cache_salt, sequence.block_table.index(block) < public_blocks)

    def _check_admission(self, before: set[Sequence], waiting_before: list[Sequence]) -> None:
        admitted = [s for s in self.scheduler._running if s not in before and s in waiting_before]
        still_waiting = [s for s in waiting_before if s in self.scheduler._waiting and s.preemptions == 0]
        for sequence in admitted:
            assert all(sequence.order < other.order for other in still_waiting)
            if sequence.preemptions == 0:
                self._check_isolation(sequence)

    def _check_isolation(self, sequence: Sequence) -> None:
        for index in range(sequence.cached_tokens // BLOCK_SIZE):
            block = sequence.block_table[index]
            if block in self.writer:
                salt, public = self.writer[block]
                own_public = index < sequence.request.public_prefix_tokens // BLOCK_SIZE
                assert salt == sequence.request.cache_salt or (public and own_public)

    @invariant()
    def every_block_is_in_one_state(self) -> None:
        if not hasattr(self, "pool"):
            return
        counts = self.pool.counts
        held = {block for s in self.scheduler._running for block in s.block_table}
        assert counts.free + counts.cached + counts.used == self.pool.num_blocks
        assert counts.used == len(held)
        assert min(counts.free, counts.cached) >= 0

    def teardown(self) -> None:
        """Whatever was asked for ends, with the right tokens, and leaves nothing behind."""
        if not hasattr(self, "pool") or self.broken:
            return
        for _ in range(4000):
            if not self.known:
                break
            self.now += 0.5
            self._step()
        assert not self.known, "a sequence starved"
        assert self.core.idle
        assert self.pool.counts.used == 0
        assert not self.core._saved
        assert self.scheduler._swapped_blocks == 0


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
