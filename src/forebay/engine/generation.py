"""One request in the engine: what it has said so far, how its next token is to be drawn, and when it ends."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from forebay.core.errors import ForebayError, InvalidRequest
from forebay.engine.detokenizer import Detokenizer
from forebay.engine.grammar.matcher import GrammarError, GrammarMatcher
from forebay.engine.request import FinishReason, GenerationEnd, GenerationRequest, GenerationUpdate, TokenLogprob
from forebay.engine.sampling.arrays import Mask
from forebay.engine.sampling.banned import banned_tokens
from forebay.engine.sampling.draw import Draw
from forebay.engine.sampling.history import TokenHistory
from forebay.engine.sampling.mask import allowed_mask
from forebay.engine.sequence import Sequence as EngineSequence
from forebay.engine.speculation import Drafting
from forebay.engine.step_plan import Advance

Decode = Callable[[Sequence[int], bool], str]
"""Token ids and whether to leave special tokens out → their text."""

_FORCED_TOKENS_PER_STEP = 16
"""More would hold up the others of a step: each is taken through grammar and detokenizer."""


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """What the engine knows of a model's tokens."""

    vocab_size: int
    """Width of the logits."""
    decode: Decode
    eos_token_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A token that was drawn, None where none was allowed, and its log-probability where that was asked for."""

    token_id: int | None
    logprob: TokenLogprob | None


@dataclass(slots=True)
class StepOutput:
    """What one step brings a generation."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])


class Generation:
    """Made when the request arrives; `matcher` keeps it to its grammar, and it `speculates` where that is possible."""

    def __init__(
        self,
        request: GenerationRequest,
        sequence: EngineSequence,
        model_tokens: ModelTokens,
        seed: int,
        matcher: GrammarMatcher | None,
        *,
        speculates: bool,
    ) -> None:
        sampling = request.sampling
        self.request = request
        self.sequence = sequence
        self.prompt_logprobs: list[TokenLogprob | None] = []
        if sampling.prompt_logprobs is not None:
            self.prompt_logprobs = [None] * (sequence.prompt_length - 1)
        self.error: ForebayError | None = None
        self.finish_reason: FinishReason | None = None
        self._stop_reason: int | str | None = None
        self._output = StepOutput()
        self._seed = seed
        self._model_end_ids = frozenset() if sampling.ignore_eos else model_tokens.eos_token_ids
        self._end_ids = self._model_end_ids | sampling.stop_token_ids
        self._matcher = matcher
        self._forced: list[int] = []
        """Tokens that the grammar leaves no choice about, still to be taken."""
        self._awaited = sampling.grammar.after_token_id if sampling.grammar else None
        self._history = TokenHistory(request.prompt_token_ids) if TokenHistory.wanted_by(sampling) else None
        allowed = sampling.allowed_token_ids
        self._allowed = None if allowed is None else allowed_mask(allowed, model_tokens.vocab_size)
        self.drafting = Drafting(request.prompt_token_ids) if speculates and self._may_speculate() else None
        self._takes_forced = self._may_take_forced()
        skip_special = sampling.skip_special_tokens
        self._detokenizer = Detokenizer(
            lambda token_ids: model_tokens.decode(token_ids, skip_special),
            sampling.stop,
            keep_stop=sampling.include_stop_str_in_output,
        )

    @property
    def ended(self) -> bool:
        return self.finish_reason is not None or self.error is not None

    @property
    def num_generated(self) -> int:
        """Tokens generated, those of the step in hand included."""
        return self.sequence.num_generated + len(self._output.token_ids)

    @property
    def num_left(self) -> int:
        """Tokens that it may still generate."""
        return self.sequence.max_tokens - self.num_generated

    def _may_speculate(self) -> bool:
        """Whether its draws depend on nothing but logits and seed, so that several can be made in one step."""
        sampling = self.request.sampling
        changed = (
            sampling.logit_bias or sampling.bad_words or sampling.min_tokens or sampling.prompt_logprobs is not None
        )
        return not changed and self._history is None and self._allowed is None and self._matcher is None

    def _may_take_forced(self) -> bool:
        """Whether what a grammar forces is what would be drawn, and no log-probability of it is wanted."""
        sampling = self.request.sampling
        restricted = sampling.bad_words or sampling.min_tokens or sampling.stop_token_ids or self._allowed is not None
        return self._matcher is not None and sampling.logprobs is None and not restricted

    @property
    def end(self) -> GenerationEnd:
        """What it has come to between two steps. One that has not ended is taken for aborted."""
        sequence = self.sequence
        begun = sequence.num_computed > 0 or sequence.num_generated > 0 or sequence.preemptions > 0
        return GenerationEnd(
            ending=self.finish_reason or ("abort" if self.error is None else "error"),
            prompt_tokens=sequence.prompt_length if begun else 0,
            cached_tokens=sequence.cached_tokens,
            completion_tokens=sequence.num_generated,
        )

    # Before and at a draw

    @property
    def draws(self) -> bool:
        """Whether its next token is to be drawn; else it is known already."""
        return not self._forced

    def begin_mask(self) -> None:
        """Have the mask of its next token computed while the model runs."""
        if self._matcher is not None and self._awaited is None and self.draws:
            with self._failing():
                self._matcher.begin()

    def grammar_mask(self, timeout_s: float) -> tuple[bool, Mask | None]:
        """Whether it can be drawn from now, and what its grammar allows (None: anything)."""
        if self._matcher is None or self._awaited is not None:
            return True, None
        mask = None
        if self.error is None:
            with self._failing():
                mask = self._matcher.mask(timeout_s)
        return mask is not None, mask

    def draw(self, ahead: int, grammar_mask: Mask | None) -> Draw:
        """How to draw the token that comes `ahead` tokens after the next."""
        mask = self._allowed
        if grammar_mask is not None:
            mask = grammar_mask if mask is None else grammar_mask & mask
        return Draw(
            params=self.request.sampling,
            seed=self._seed,
            position=self.num_generated + ahead,
            history=self._history,
            banned=self._banned(),
            mask=mask,
        )

    def _banned(self) -> Sequence[int]:
        sampling = self.request.sampling
        # To end before its grammar has begun would be an answer that does not match it.
        banned = set() if self._awaited is None else self._end_ids - {self._awaited}
        if sampling.bad_words or sampling.min_tokens:
            generated = [*self.sequence.token_ids[self.sequence.prompt_length :], *self._output.token_ids]
            banned = {*banned, *banned_tokens(sampling, generated, self._end_ids)}
        return sorted(banned)

    # After it

    def take_step(self, drawn: Sequence[Drawn], num_drafts: int) -> Advance:
        """Take in what was drawn after the known tokens and the drafts, as far as the drafts were right, and what the
        grammar then leaves no choice about."""
        num_verified = 0
        try:
            if drawn:
                num_verified = self._take_drawn(drawn, num_drafts)
            if self._takes_forced and not self.ended:
                self._take_forced(fresh=bool(drawn))
        except GrammarError as error:
            self._fail(error)
        token_ids = tuple(self._output.token_ids)
        if self.drafting is not None:
            self.drafting.learn(token_ids, num_drafts)
        return Advance(token_ids, num_verified)

    def _take_drawn(self, drawn: Sequence[Drawn], num_drafts: int) -> int:
        """How many of the drafts were right."""
        draft = self.sequence.draft
        for ahead, each in enumerate(drawn):
            if each.token_id is None:
                self._end_where_nothing_is_allowed()
            else:
                self._take(each.token_id, each.logprob)
            if self.ended or ahead == num_drafts or each.token_id != draft[ahead]:
                return ahead
        return num_drafts

    def _take_forced(self, *, fresh: bool) -> None:
        assert self._matcher is not None
        if fresh and self._awaited is None:
            self._forced = self._matcher.forced()
        taken, self._forced = self._forced[:_FORCED_TOKENS_PER_STEP], self._forced[_FORCED_TOKENS_PER_STEP:]
        for token_id in taken:
            self._take(token_id, None)
            if self.ended:
                self._forced = []
                return

    def _take(self, token_id: int, logprob: TokenLogprob | None) -> None:
        """Take in one token of its output: its text, and whether the generation ends with it."""
        self._output.token_ids.append(token_id)
        if self._history is not None:
            self._history.push(token_id)
        if token_id in self._end_ids and token_id != self._awaited:
            self._end_with(token_id, logprob)
            return
        if logprob is not None:
            self._output.logprobs.append(logprob)
        num_generated = self.num_generated
        may_stop = num_generated >= self.request.sampling.min_tokens
        self._output.text += self._detokenizer.push(token_id, may_stop=may_stop)
        if self._detokenizer.stopped_at is not None:
            self._end("stop", self._detokenizer.stopped_at)
        elif self._completes_grammar(token_id):
            self._end("stop", None)
        elif num_generated >= self.sequence.max_tokens:
            self._end("length", None)

    def _completes_grammar(self, token_id: int) -> bool:
        """Move on in the grammar, or begin it; whether nothing can follow."""
        if self._awaited is not None:
            if token_id == self._awaited:
                self._awaited = None
            return False
        if self._matcher is None:
            return False
        self._matcher.accept(token_id)
        return self._matcher.stopped

    def _end_where_nothing_is_allowed(self) -> None:
        """It is an end like any other only where the grammar, if there is one, lets the text end here."""
        if self._awaited is None and (self._matcher is None or self._matcher.complete):
            self._end("stop", None)
        else:
            self._fail(GrammarError("no token that it allows is allowed by the request's other fields"))

    def _end_with(self, token_id: int, logprob: TokenLogprob | None) -> None:
        """End it with an end token of the model, or with a stop token of the request."""
        by_request = token_id not in self._model_end_ids
        if by_request and self.request.sampling.include_stop_str_in_output:
            self._output.text += self._detokenizer.push(token_id)
            if logprob is not None:
                self._output.logprobs.append(logprob)
        self._end("stop", token_id if by_request else None)

    def _end(self, reason: FinishReason, stop_reason: int | str | None) -> None:
        self._output.text += self._detokenizer.flush()
        if reason == "length" and self._detokenizer.stopped_at is not None:
            # Held back until now, as it may have been part of a longer one.
            reason, stop_reason = "stop", self._detokenizer.stopped_at
        self.finish_reason = reason
        self._stop_reason = stop_reason

    @contextmanager
    def _failing(self) -> Generator[None]:
        """A grammar that cannot be followed any further ends its generation, and no other."""
        try:
            yield
        except GrammarError as error:
            self._fail(error)

    def _fail(self, error: GrammarError) -> None:
        told = f"the output's grammar could not be followed to its end: {error}"
        grammar = self.request.sampling.grammar
        self.error = InvalidRequest(told, param=None if grammar is None else grammar.param)

    @property
    def has_news(self) -> bool:
        """Whether the step in hand brought it a token or its end."""
        return self.ended or bool(self._output.token_ids)

    def update(self) -> GenerationUpdate:
        """What has been taken in since the last update; called after the sequence knows of it."""
        output, self._output = self._output, StepOutput()
        scored = tuple(each for each in self.prompt_logprobs if each is not None)
        assert len(scored) == len(self.prompt_logprobs), "a prompt is scored before its first token is drawn"
        self.prompt_logprobs = []
        return GenerationUpdate(
            text=output.text,
            token_ids=tuple(output.token_ids),
            prompt_tokens=self.sequence.prompt_length,
            cached_tokens=self.sequence.cached_tokens,
            completion_tokens=self.sequence.num_generated,
            finish_reason=self.finish_reason,
            stop_reason=self._stop_reason,
            logprobs=tuple(output.logprobs),
            prompt_logprobs=scored,
        )
