"""Guesses change nothing in what is said: an engine over the fake runner, whose guesses are chosen here."""

from collections.abc import Collection

import pytest

from forebay.engine.core import EngineCore
from forebay.engine.generation import Generation
from forebay.engine.guessing import Guesser
from forebay.engine.request import SamplingParams
from forebay.engine.speculation import StepCosts
from tests.support.fake_runner import VOCAB
from tests.unit.test_engine_generation import SAID, FixedGrammar, add, greedy, make_core, only, text, tokens, updates


class Oracle(Guesser):
    """Guesses what `coming` says comes after the prompt."""

    def __init__(self, coming: list[int]) -> None:
        super().__init__(StepCosts((1,), (1.0,)))
        self._coming = coming

    def give(self, generations: Collection[Generation]) -> None:
        for generation in generations:
            sequence = generation.sequence
            if generation.drafting is not None and sequence.num_behind == 1 and sequence.block_table:
                done = sequence.num_generated
                sequence.draft = self._coming[done : done + min(4, generation.num_left - 1)]


def guessing(coming: list[int], *, eos: int = -1) -> EngineCore:
    core = make_core(eos=eos)
    core.guesser = Oracle(coming)
    return core


def test_a_seed_draws_the_same_with_guesses_as_without():
    sampling = SamplingParams(temperature=4.0, seed=3)
    alone = tokens(make_core(), sampling, 40)
    core = guessing(alone)
    assert tokens(core, sampling, 40) == alone
    assert core.totals.accepted_draft_tokens == core.totals.draft_tokens > 20
    wrong = guessing([(token + 1) % VOCAB if index % 3 == 0 else token for index, token in enumerate(alone)])
    assert tokens(wrong, sampling, 40) == alone
    assert 0 < wrong.totals.accepted_draft_tokens < wrong.totals.draft_tokens


def test_an_end_among_right_guesses_is_the_end():
    core = guessing(SAID, eos=SAID[3])
    told = updates(core, add(core, greedy()))
    assert [token for each in told for token in each.token_ids] == SAID[:4]
    assert (told[-1].finish_reason, "".join(each.text for each in told)) == ("stop", text(3))
    assert core.totals.generation_tokens == 4


@pytest.mark.parametrize(
    "changed",
    [
        {"presence_penalty": 0.1},
        {"min_tokens": 2},
        {"bad_words": ((1,),)},
        {"prompt_logprobs": 0},
        {"logit_bias": ((1, 1.0),)},
        {"allowed_token_ids": frozenset({1})},
    ],
)
def test_draws_that_depend_on_what_was_drawn_are_made_one_by_one(changed: dict[str, object]):
    core = guessing(SAID)
    assert add(core, greedy(**changed)).drafting is None
    assert add(core, greedy()).drafting is not None
    assert add(core, greedy(), FixedGrammar([only(1)])).drafting is None
