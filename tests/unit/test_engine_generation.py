"""How a generation ends, and what it tells on the way: an engine over the fake runner, whose every token is known."""

import numpy as np
import pytest

from forebay.core.errors import InvalidRequest
from forebay.engine.block_pool import BlockPool
from forebay.engine.core import EngineCore
from forebay.engine.generation import Generation, Vocabulary
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
    return EngineCore(FakeRunner(64, 4), scheduler, Vocabulary(VOCAB, decode, frozenset({eos})))


def add(core: EngineCore, sampling: SamplingParams, grammar: object = None, max_tokens: int = 8) -> Generation:
    request = GenerationRequest("r", PROMPT, sampling)
    return core.add(request, max_tokens, 0.0, grammar)  # pyright: ignore[reportArgumentType]


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
    core = make_core()
    generation = add(core, greedy(), FixedGrammar([np.zeros(4, dtype=np.uint32)]))
    assert [each.finish_reason for each in updates(core, generation)] == ["stop"]
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

    def __init__(self, masks: list[np.ndarray | GrammarError | None], forced: tuple[int, ...] = ()) -> None:
        self._masks = masks
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
        return not self._masks


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
