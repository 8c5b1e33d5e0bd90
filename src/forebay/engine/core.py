"""One engine step, synchronous: schedule, move blocks, run the model, draw tokens, say what came of it."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from forebay.core.errors import ForebayError
from forebay.engine.generation import Drawn, Generation, ModelTokens
from forebay.engine.grammar.matcher import CompiledGrammar
from forebay.engine.guessing import Guesser
from forebay.engine.request import GenerationRequest, GenerationUpdate, TokenLogprob
from forebay.engine.runner import HostBlocks, ModelRunner, SequenceSlice, StepLogits
from forebay.engine.sampling.arrays import Mask
from forebay.engine.sampling.logprobs import token_logprobs
from forebay.engine.sampling.sample import sample
from forebay.engine.scheduler import Scheduler
from forebay.engine.sequence import Sequence as EngineSequence
from forebay.engine.step_plan import Advance, Slice, StepPlan

LATE_MASK_WAIT_S = 0.02
"""How long a step in which nothing else can be drawn waits for masks that are not ready when the model is."""


@dataclass(slots=True)
class EngineTotals:
    """Tokens since the start."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generation_tokens: int = 0
    draft_tokens: int = 0
    accepted_draft_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the step's logits from which a token is to be drawn: the one `ahead` tokens after the next."""

    index: int
    generation: Generation
    ahead: int
    mask: Mask | None


StepResult = list[tuple[Generation, GenerationUpdate | ForebayError]]


@dataclass(slots=True)
class EngineCore:
    """Joins scheduler, runner and sampling. Belongs to one thread."""

    runner: ModelRunner
    scheduler: Scheduler
    model_tokens: ModelTokens
    guesser: Guesser | None = None
    totals: EngineTotals = field(default_factory=EngineTotals)
    _generations: dict[EngineSequence, Generation] = field(default_factory=dict[EngineSequence, Generation])
    _saved: dict[EngineSequence, HostBlocks] = field(default_factory=dict[EngineSequence, HostBlocks])
    _arrivals: int = 0

    def add(
        self, request: GenerationRequest, max_tokens: int, now: float, grammar: CompiledGrammar | None = None
    ) -> Generation:
        """Put a request in line; it may generate `max_tokens` at most, which the caller has checked to fit, and
        `grammar` is its compiled one."""
        seed = request.sampling.seed if request.sampling.seed is not None else secrets.randbits(63)
        sequence = EngineSequence(request, self._arrivals, max_tokens)
        self._arrivals += 1
        matcher = None if grammar is None else grammar.matcher()
        speculates = self.guesser is not None
        generation = Generation(request, sequence, self.model_tokens, seed, matcher, speculates=speculates)
        self._generations[sequence] = generation
        self.scheduler.add(sequence, now)
        return generation

    def remove(self, generation: Generation) -> None:
        """Abort a generation, or forget an ended one. Its blocks are free from now on. Twice is once."""
        if self._generations.pop(generation.sequence, None) is not None:
            self.scheduler.finish(generation.sequence)
            self._saved.pop(generation.sequence, None)

    @property
    def idle(self) -> bool:
        return not self._generations

    def step(self, now: float) -> StepResult:
        """Run one step; what it brought the generations that it brought something."""
        if self.guesser is not None:
            self.guesser.give(self._generations.values())
        plan = self.scheduler.schedule(now)
        self._move_blocks(plan)
        if not plan.slices:
            return []
        for part in plan.slices:
            if part.samples:
                self._generations[part.sequence].begin_mask()
        logits = self.runner.run([self._runner_slice(part) for part in plan.slices])
        self._score_prompts(plan, logits)
        return self._advance(plan, logits)

    def _move_blocks(self, plan: StepPlan) -> None:
        for out in plan.swap_out:
            self._saved[out.sequence] = self.runner.copy_out(out.blocks)
        for back in plan.swap_in:
            rows = range(back.first_row, back.first_row + len(back.blocks))
            self.runner.copy_in(self._saved[back.sequence], rows, back.blocks)
        for sequence in [s for s in self._saved if s.num_saved_blocks == 0]:
            del self._saved[sequence]

    def _runner_slice(self, part: Slice) -> SequenceSlice:
        sequence = part.sequence
        start = sequence.num_computed
        return SequenceSlice(
            token_ids=[*sequence.token_ids[start : start + part.num_tokens], *sequence.draft[: part.num_drafts]],
            start=start,
            block_table=sequence.block_table,
            num_sampled=_num_rows(part),
            temperature=sequence.request.sampling.temperature,
        )

    # What the rows of logits are for

    def _score_prompts(self, plan: StepPlan, logits: StepLogits) -> None:
        """Note the log-probabilities of the prompt tokens after those of this step, where they were asked for."""
        first_row = 0
        for part in plan.slices:
            sequence = part.sequence
            count = sequence.request.sampling.prompt_logprobs
            if sequence.scores_prompt and count is not None:
                start = sequence.num_computed
                following = sequence.token_ids[start + 1 : start + 1 + part.num_tokens]
                rows = range(first_row, first_row + len(following))
                temperatures = [sequence.request.sampling.temperature] * len(rows)
                scores = token_logprobs(logits, rows, following, [count] * len(rows), temperatures)
                self._generations[sequence].prompt_logprobs[start : start + len(rows)] = scores
            first_row += _num_rows(part)

    def _rows(self, plan: StepPlan) -> list[_Row]:
        """The rows to draw from. A generation whose mask is late has none: it runs its last token again in the next
        step, and only where nobody else has a row, it is waited for."""
        rows: list[_Row] = []
        late: list[tuple[Generation, int]] = []
        first_row = 0
        for part in plan.slices:
            generation = self._generations[part.sequence]
            next_row = first_row + _num_rows(part)
            if part.samples and generation.draws:
                first_drawn = next_row - 1 - part.num_drafts
                ready, mask = generation.grammar_mask(0.0)
                if ready:
                    rows += [_Row(first_drawn + i, generation, i, mask) for i in range(part.num_drafts + 1)]
                else:
                    late.append((generation, first_drawn))
            first_row = next_row
        return rows or self._late_rows(late)

    def _late_rows(self, late: Sequence[tuple[Generation, int]]) -> list[_Row]:
        rows: list[_Row] = []
        for generation, index in late:
            ready, mask = generation.grammar_mask(LATE_MASK_WAIT_S / len(late))
            if ready:
                rows.append(_Row(index, generation, 0, mask))
        return rows

    def _draw(self, rows: Sequence[_Row], logits: StepLogits) -> list[Drawn]:
        """A token for each row, and its log-probability where that was asked for."""
        if not rows:
            return []
        if len(rows) < len(logits.log_normaliser):
            logits = logits.take([row.index for row in rows])
        tokens = sample(logits, [row.generation.draw(row.ahead, row.mask) for row in rows])
        told = [
            (index, token, params.logprobs, params.temperature)
            for index, token in enumerate(tokens)
            if token is not None and (params := rows[index].generation.request.sampling).logprobs is not None
        ]
        scores: dict[int, TokenLogprob] = {}
        if told:
            indices, chosen, counts, temperatures = zip(*told, strict=True)
            scores = dict(zip(indices, token_logprobs(logits, indices, chosen, counts, temperatures), strict=True))
        return [Drawn(token, scores.get(index)) for index, token in enumerate(tokens)]

    # From tokens to updates

    def _advance(self, plan: StepPlan, logits: StepLogits) -> StepResult:
        rows = self._rows(plan)
        drawn: dict[Generation, list[Drawn]] = {}
        for row, token in zip(rows, self._draw(rows, logits), strict=True):
            drawn.setdefault(row.generation, []).append(token)
        advances: dict[EngineSequence, Advance] = {}
        for part in plan.slices:
            if part.samples:
                generation = self._generations[part.sequence]
                advance = generation.take_step(drawn.get(generation, ()), part.num_drafts)
                advances[part.sequence] = advance
                self._count(part, advance)
        self.scheduler.complete(plan, advances)
        sampling = [self._generations[sequence] for sequence in advances]
        return [(generation, self._told(generation)) for generation in sampling if generation.has_news]

    def _count(self, part: Slice, advance: Advance) -> None:
        if advance.token_ids and part.sequence.awaits_first_token:
            self.totals.prompt_tokens += part.sequence.prompt_length
            self.totals.cached_prompt_tokens += part.sequence.cached_tokens
        self.totals.generation_tokens += len(advance.token_ids)
        self.totals.draft_tokens += part.num_drafts
        self.totals.accepted_draft_tokens += advance.num_verified

    def _told(self, generation: Generation) -> GenerationUpdate | ForebayError:
        """The step's update; an ended generation is gone after it."""
        update = generation.error or generation.update()
        if generation.ended:
            self.remove(generation)
        return update


def _num_rows(part: Slice) -> int:
    """How many of a slice's tokens bring a row of logits."""
    if part.sequence.scores_prompt:
        return part.num_tokens
    return 1 + part.num_drafts if part.samples else 0
