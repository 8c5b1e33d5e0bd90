"""One engine step, synchronous: schedule, move blocks, run the model, draw tokens, say what came of it."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from forebay.engine.detokenizer import Detokenizer
from forebay.engine.request import FinishReason, GenerationRequest, GenerationUpdate
from forebay.engine.runner import HostBlocks, ModelRunner, SequenceSlice
from forebay.engine.sampling import Draw, sample
from forebay.engine.scheduler import Scheduler, Slice, StepPlan
from forebay.engine.sequence import Sequence as EngineSequence


@dataclass(slots=True, eq=False)
class Generation:
    """A request in the engine: its sequence, its text so far, its seed."""

    request: GenerationRequest
    sequence: EngineSequence
    detokenizer: Detokenizer
    seed: int


@dataclass(slots=True)
class EngineTotals:
    """Tokens since the start."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generation_tokens: int = 0


@dataclass(slots=True)
class EngineCore:
    """Joins scheduler, runner and sampling. Belongs to one thread."""

    runner: ModelRunner
    scheduler: Scheduler
    decode: Callable[[Sequence[int]], str]
    eos_token_ids: frozenset[int]
    totals: EngineTotals = field(default_factory=EngineTotals)
    _generations: dict[EngineSequence, Generation] = field(default_factory=dict[EngineSequence, Generation])
    _saved: dict[EngineSequence, HostBlocks] = field(default_factory=dict[EngineSequence, HostBlocks])
    _arrivals: int = 0

    def add(self, request: GenerationRequest, max_tokens: int, now: float) -> Generation:
        """Put a request in line; it may generate `max_tokens` at most, which the caller has checked to fit."""
        seed = request.sampling.seed if request.sampling.seed is not None else secrets.randbits(63)
        sequence = EngineSequence(request, self._arrivals, max_tokens)
        self._arrivals += 1
        generation = Generation(request, sequence, Detokenizer(self.decode, request.sampling.stop), seed)
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

    def step(self, now: float) -> list[tuple[Generation, GenerationUpdate]]:
        """Run one step; the updates of the generations that it brought a token."""
        plan = self.scheduler.schedule(now)
        self._move_blocks(plan)
        if not plan.slices:
            return []
        logits = self.runner.run([self._runner_slice(part) for part in plan.slices])
        sampling = [self._generations[part.sequence] for part in plan.slices if part.samples]
        tokens = sample(logits, [Draw(g.request.sampling, g.seed, g.sequence.num_generated) for g in sampling])
        first = [g for g in sampling if g.sequence.awaits_first_token]
        self.scheduler.complete(plan, {g.sequence: token for g, token in zip(sampling, tokens, strict=True)})
        self._count(first, len(tokens))
        return [(g, self._advance(g, token)) for g, token in zip(sampling, tokens, strict=True)]

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
            token_ids=sequence.token_ids[start : start + part.num_tokens],
            start=start,
            block_table=sequence.block_table,
            sample=part.samples,
            temperature=sequence.request.sampling.temperature,
        )

    def _count(self, first: Sequence[Generation], generated: int) -> None:
        self.totals.prompt_tokens += sum(g.sequence.prompt_length for g in first)
        self.totals.cached_prompt_tokens += sum(g.sequence.cached_tokens for g in first)
        self.totals.generation_tokens += generated

    def _advance(self, generation: Generation, token: int) -> GenerationUpdate:
        """Take in one drawn token: its text, and whether the generation ends with it."""
        sequence = generation.sequence
        reason: FinishReason | None = None
        text = ""
        if token in self.eos_token_ids and not generation.request.sampling.ignore_eos:
            reason = "stop"
        else:
            text = generation.detokenizer.push(token)
            if generation.detokenizer.stopped:
                reason = "stop"
            elif sequence.num_generated >= sequence.max_tokens:
                reason = "length"
        if reason is not None:
            text += generation.detokenizer.flush()
            self.remove(generation)
        return GenerationUpdate(
            text=text,
            token_ids=(token,),
            prompt_tokens=sequence.prompt_length,
            cached_tokens=sequence.cached_tokens,
            completion_tokens=sequence.num_generated,
            finish_reason=reason,
        )
