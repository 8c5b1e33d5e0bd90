"""How a generation ends, and what it tells on the way: an engine over the fake runner, whose every token is known."""

import numpy as np
import pytest

from forebay.core.errors import InvalidRequest
from forebay.engine.block_pool import BlockPool
from forebay.engine.core import EngineCore
from forebay.engine.generation import Generation, ModelTokens
from forebay.engine.grammar.matcher import GrammarError
from forebay.engine.request import GenerationRequest, GenerationUpdate, Grammar, SamplingParams
from forebay.engine.sampling.mask import allowed_mask
from forebay.engine.scheduler import Scheduler, SchedulerLimits, SwapCosts
from tests.support.fake_runner import VOCAB, FakeRunner, continuation

PROMPT = (5, 6, 7)
SAID = continuation(PROMPT, 8)
"""What the model says after PROMPT."""


def decode(token_ids: list[int], skip_special_tokens: bool) -> str:
    return "".join(f"[{token}]" for token in token_ids if not (skip_special_tokens and token == SAID[1]))


def make_core(*, eos: int = -1) -> EngineCore:
    scheduler = Scheduler(BlockPool(64, 4), SchedulerLimits(8, 64, 64, 64, 0.0, 1), SwapCosts(0, 1.0, 1.0))
    return EngineCore(FakeRunner(64, 4), scheduler, ModelTokens(VOCAB, decode, frozenset({eos})))


def add(core: EngineCore, sampling: SamplingParams, grammar: object = None, max_tokens: int = 8) -> Generation:
    request = GenerationRequest("r", PROMPT, sampling)
    return core.add(request, max_tokens, 0.0, grammar)  # pyright: ignore[reportArgumentType]


def tokens(core: EngineCore, sampling: SamplingParams, count: int = 8) -> list[int]:
    return [token for each in updates(core, add(core, sampling, max_tokens=count)) for token in each.token_ids]


def updates(core: EngineCore, generation: Generation) -> list[GenerationUpdate]:
    told: list[GenerationUpdate] = []
    for _ in range(50):
        for who, update in core.step(0.0):
            if who is generation:
                assert isinstance(update, GenerationUpdate)
                told.append(update)
        if generation.ended:
            return told
    raise AssertionError("not ended after 50 steps")


def outcome(sampling: SamplingParams, *, eos: int = -1) -> tuple[str, int | str | None, str, int]:
    core = make_core(eos=eos)
    told = updates(core, add(core, sampling))
    assert core.idle
    last = told[-1]
    return last.finish_reason or "", last.stop_reason, "".join(each.text for each in told), last.completion_tokens


def greedy(**fields: object) -> SamplingParams:
    return SamplingParams(temperature=0.0, skip_special_tokens=False, **fields)  # pyright: ignore[reportArgumentType]


def text(count: int) -> str:
    return decode(SAID[:count], False)


def test_it_ends_at_its_length():
    assert outcome(greedy()) == ("length", None, text(8), 8)


def test_it_ends_at_the_models_end_token_unless_that_is_to_be_ignored():
    assert outcome(greedy(), eos=SAID[3]) == ("stop", None, text(3), 4)
    assert outcome(greedy(ignore_eos=True), eos=SAID[3]) == ("length", None, text(8), 8)


def test_it_ends_at_a_stop_token_and_says_which():
    assert outcome(greedy(stop_token_ids=frozenset({SAID[2]}))) == ("stop", SAID[2], text(2), 3)


def test_a_stop_token_can_be_kept_in_the_text():
    kept = greedy(stop_token_ids=frozenset({SAID[2]}), include_stop_str_in_output=True)
    assert outcome(kept) == ("stop", SAID[2], text(3), 3)


def test_it_ends_at_a_stop_string_and_says_which():
    stop = f"{SAID[3]}][{SAID[4]}"
    assert outcome(greedy(stop=(stop,))) == ("stop", stop, text(3) + "[", 5)


def test_before_min_tokens_no_stop_string_counts_and_no_end_token_is_drawn():
    stop = f"[{SAID[1]}]"
    assert outcome(greedy(stop=(stop,), min_tokens=3)) == ("length", None, text(8), 8)
    reason, _, said, count = outcome(greedy(min_tokens=4), eos=SAID[1])
    assert (said.startswith(text(1)), f"[{SAID[1]}]" in said, count >= 4, reason) == (True, False, True, "length")


def test_special_tokens_are_left_out_of_the_text_by_default():
    core = make_core()
    told = updates(core, add(core, SamplingParams(temperature=0.0)))
    assert "".join(each.text for each in told) == text(1) + decode(SAID[2:], False)


def test_where_no_token_is_allowed_it_ends():
    banned = greedy(allowed_token_ids=frozenset({1}), bad_words=((1,),))
    assert outcome(banned) == ("stop", None, "", 0)


def test_a_text_that_its_grammar_calls_complete_may_end_where_no_token_is_allowed():
    core = make_core()
    grammar = FixedGrammar([only(1), only(1)], complete=True)
    told = updates(core, add(core, greedy(bad_words=((1, 1),)), grammar))
    assert [(each.token_ids, each.finish_reason) for each in told] == [((1,), None), ((), "stop")]
    assert core.idle


def test_a_text_that_breaks_off_in_its_grammar_is_an_error():
    core = make_core()
    generation = add(core, greedy(bad_words=((1, 1),)), FixedGrammar([only(1), only(1)]))
    (_, first), (_, second) = [*core.step(0.0), *core.step(0.0)]
    assert isinstance(first, GenerationUpdate)
    assert isinstance(second, InvalidRequest)
    assert "no token that it allows" in second.detail
    assert generation.ended
    assert core.idle


def test_logprobs_come_for_every_token_but_the_one_that_ends_it():
    core = make_core(eos=SAID[3])
    told = updates(core, add(core, greedy(logprobs=2)))
    assert [len(each.logprobs) for each in told] == [1, 1, 1, 0]
    for each, token in zip(told, SAID[:3], strict=False):
        assert each.logprobs[0].token_id == each.logprobs[0].top[0][0] == token
        assert each.logprobs[0].logprob == pytest.approx(9 - np.log(np.exp(9) + VOCAB - 1), abs=1e-5)
        assert len(each.logprobs[0].top) == 2


def test_prompt_logprobs_come_once():
    core = make_core()
    told = updates(core, add(core, greedy(prompt_logprobs=1)))
    assert [each.token_id for each in told[0].prompt_logprobs] == list(PROMPT[1:])
    assert [each.top[0][0] for each in told[0].prompt_logprobs] == [
        continuation(PROMPT[:1], 1)[0],
        continuation(PROMPT[:2], 1)[0],
    ]
    assert all(not each.prompt_logprobs for each in told[1:])


class FixedGrammar:
    """Has these masks, one for each token; None is one that is late, an error one that cannot be made."""

    def __init__(
        self,
        masks: list[np.ndarray | GrammarError | None],
        forced: tuple[int, ...] = (),
        *,
        complete: bool = False,
    ) -> None:
        self._masks = masks
        self.complete = complete
        self._forced = list(forced)
        self.accepted: list[int] = []

    def matcher(self) -> "FixedGrammar":
        return self

    def begin(self) -> None:
        pass

    def mask(self, timeout_s: float) -> np.ndarray | None:
        mask = self._masks.pop(0)
        if isinstance(mask, GrammarError):
            raise mask
        return mask

    def accept(self, token_id: int) -> None:
        self.accepted.append(token_id)

    def forced(self) -> list[int]:
        forced, self._forced = self._forced, []
        return forced

    @property
    def stopped(self) -> bool:
        return not self._masks and not self.complete


def only(token_id: int) -> np.ndarray:
    return allowed_mask([token_id], VOCAB)


def test_a_grammar_decides_and_ends_the_generation_when_nothing_can_follow():
    core = make_core()
    grammar = FixedGrammar([only(1), only(2)])
    told = updates(core, add(core, greedy(), grammar))
    assert [each.token_ids for each in told] == [(1,), (2,)]
    assert (told[-1].finish_reason, told[-1].stop_reason) == ("stop", None)
    assert grammar.accepted == [1, 2]


def test_forced_tokens_come_with_the_token_before_them():
    core = make_core()
    told = updates(core, add(core, greedy(), FixedGrammar([only(1), only(2)], forced=(8, 9))))
    assert [each.token_ids for each in told] == [(1, 8, 9), (2,)]
    assert told[-1].completion_tokens == 4
    assert core.totals.generation_tokens == 4


def test_forced_tokens_end_at_the_length_too():
    core = make_core()
    told = updates(core, add(core, greedy(), FixedGrammar([only(1), only(2)], forced=(8, 9)), max_tokens=2))
    assert [(each.token_ids, each.finish_reason) for each in told] == [((1, 8), "length")]


def test_one_late_mask_holds_up_nobody_else():
    core = make_core()
    late = add(core, greedy(), FixedGrammar([None, None, only(1), only(2)]))
    other = add(core, greedy())
    seen = [dict(core.step(0.0)) for _ in range(4)]
    assert [late in each for each in seen] == [False, False, True, True]
    assert all(other in each for each in seen)
    assert late.finish_reason == "stop"


def test_a_grammar_that_fails_ends_its_generation_and_no_other():
    core = make_core()
    failing = add(core, greedy(), FixedGrammar([only(1), GrammarError("a limit was reached"), only(1)]))
    other = add(core, greedy())
    told = [each for _ in range(8) for each in core.step(0.0)]
    (error,) = [update for who, update in told if who is failing and not isinstance(update, GenerationUpdate)]
    assert isinstance(error, InvalidRequest)
    assert "a limit was reached" in error.detail
    assert [update.token_ids[0] for who, update in told if who is other] == SAID
    assert core.idle


def test_a_grammar_that_waits_for_a_token_begins_after_it_and_nothing_ends_before():
    awaited = said_first_instead_of_ending()
    core = make_core(eos=SAID[0])
    grammar = FixedGrammar([only(1), only(2)])
    told = updates(core, add(core, greedy(grammar=Grammar("regex", "x", after_token_id=awaited)), grammar))
    assert [each.token_ids for each in told] == [(awaited,), (1,), (2,)]
    assert grammar.accepted == [1, 2]


def said_first_instead_of_ending() -> int:
    """What is said where the likeliest token, an end token, may not be."""
    core = make_core(eos=SAID[0])
    waiting = greedy(grammar=Grammar("regex", "x", after_token_id=VOCAB - 1))
    (update,) = updates(core, add(core, waiting, FixedGrammar([only(1)]), max_tokens=1))
    return update.token_ids[0]


def test_a_bad_word_is_also_not_said_before_the_grammar_begins():
    core = make_core()
    sampling = greedy(grammar=Grammar("regex", "x", after_token_id=VOCAB - 1), bad_words=((SAID[0],),))
    (update,) = updates(core, add(core, sampling, FixedGrammar([only(1)]), max_tokens=1))
    assert update.token_ids[0] != SAID[0]


def test_the_token_that_a_grammar_waits_for_may_be_a_stop_token():
    core = make_core()
    sampling = greedy(grammar=Grammar("regex", "x", after_token_id=SAID[0]), stop_token_ids=frozenset({SAID[0]}))
    told = updates(core, add(core, sampling, FixedGrammar([only(1), only(2)])))
    assert [each.token_ids for each in told] == [(SAID[0],), (1,), (2,)]


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_token_ids": frozenset({1, 2})},
        {"bad_words": ((8,),)},
        {"min_tokens": 3},
        {"stop_token_ids": frozenset({8})},
        {"logprobs": 0},
    ],
)
def test_nothing_is_forced_where_each_token_is_to_be_looked_at(fields: dict[str, object]):
    core = make_core()
    told = updates(core, add(core, greedy(**fields), FixedGrammar([only(1), only(2)], forced=(8,))))
    assert [each.token_ids for each in told] == [(1,), (2,)]


def test_many_forced_tokens_come_in_several_steps():
    core = make_core()
    forced = tuple(range(40))
    generation = add(core, greedy(), FixedGrammar([only(1), only(2)], forced=forced), max_tokens=60)
    told = [each.token_ids for each in updates(core, generation)]
    assert [len(each) for each in told] == [17, 16, 8, 1]
    assert [token for each in told for token in each] == [1, *forced, 2]


def test_a_stop_string_that_is_only_certain_at_the_length_is_the_end():
    stop = (f"[{SAID[7]}]", f"[{SAID[7]}][x")
    assert outcome(greedy(stop=stop)) == ("stop", stop[0], text(7), 8)


def test_a_stop_token_that_is_kept_has_its_log_probability():
    core = make_core()
    kept = greedy(stop_token_ids=frozenset({SAID[2]}), include_stop_str_in_output=True, logprobs=0)
    told = updates(core, add(core, kept))
    assert [each.token_id for update in told for each in update.logprobs] == SAID[:3]


def test_penalties_count_what_was_generated():
    bias = ((3, 50.0), (4, 49.0))
    assert tokens(make_core(), greedy(logit_bias=bias, frequency_penalty=1.5), 4) == [3, 4, 3, 4]


def test_a_stop_string_that_ends_with_the_last_of_min_tokens_counts():
    stop = f"[{SAID[2]}]"
    assert outcome(greedy(stop=(stop,), min_tokens=3)) == ("stop", stop, text(2), 3)


def test_told_logprobs_are_the_models_own_at_any_temperature():
    core = make_core()
    told = updates(core, add(core, SamplingParams(temperature=0.5, seed=1, logprobs=1, prompt_logprobs=1)))
    told_tops = [each.top[0][1] for update in told for each in (*update.logprobs, *update.prompt_logprobs)]
    assert told_tops == pytest.approx([9 - np.log(np.exp(9) + VOCAB - 1)] * (8 + 2), abs=1e-5)


def test_a_prompt_is_counted_once_and_its_cached_part_too():
    core = make_core()
    long = tuple(range(9))
    for _ in range(2):
        updates(core, core.add(GenerationRequest("r", long, greedy()), 2, 0.0))
    late = add(core, greedy(), FixedGrammar([None, None, only(1)]))
    updates(core, late)
    assert (core.totals.prompt_tokens, core.totals.cached_prompt_tokens) == (9 + 9 + 3, 8)


def test_grammar_and_allowed_tokens_both_hold():
    core = make_core()
    both = FixedGrammar([only(1) | only(2), only(1)])
    generation = add(core, greedy(allowed_token_ids=frozenset({2, 5})), both)
    told = [update for _ in range(2) for _, update in core.step(0.0)]
    assert isinstance(told[0], GenerationUpdate)
    assert told[0].token_ids == (2,)
    assert isinstance(told[1], InvalidRequest)
    assert generation.ended


def test_no_token_is_forced_where_each_ones_logprob_is_wanted():
    core = make_core()
    told = updates(core, add(core, greedy(logprobs=0), FixedGrammar([only(1), only(8), only(2)], forced=(8,))))
    assert [each.token_ids for each in told] == [(1,), (8,), (2,)]
    assert [len(each.logprobs) for each in told] == [1, 1, 1]


class RefusingGrammar(FixedGrammar):
    """Cannot begin a mask, or cannot take a token."""

    def __init__(self, *, at: str) -> None:
        super().__init__([only(1), only(2)])
        self._at = at

    def begin(self) -> None:
        if self._at == "begin":
            raise GrammarError("refused")

    def accept(self, token_id: int) -> None:
        if self._at == "accept":
            raise GrammarError("refused")


@pytest.mark.parametrize("at", ["begin", "accept"])
def test_wherever_a_grammar_fails_it_ends_its_generation_and_no_other(at: str):
    core = make_core()
    failing, other = add(core, greedy(), RefusingGrammar(at=at)), add(core, greedy())
    told = [each for _ in range(8) for each in core.step(0.0)]
    assert [type(update) for who, update in told if who is failing] == [InvalidRequest]
    assert [update.token_ids[0] for who, update in told if who is other] == SAID
    assert core.idle
    assert core.scheduler.pool.counts.used == 0


def test_a_mask_is_begun_before_the_model_runs():
    seen: list[str] = []

    class Noting(FixedGrammar):
        def begin(self) -> None:
            seen.append("begin")

    class NotingRunner(FakeRunner):
        def run(self, slices):
            seen.append("run")
            return super().run(slices)

    core = make_core()
    core.runner = NotingRunner(64, 4)
    add(core, greedy(), Noting([only(1)]))
    core.step(0.0)
    assert seen == ["begin", "run"]
