"""The engine's own guesses, over a model that repeats itself: what it says is the token three before."""

from collections.abc import Iterator

import numpy as np

from forebay.engine.block_pool import BlockPool
from forebay.engine.core import EngineCore
from forebay.engine.generation import ModelTokens
from forebay.engine.guessing import Guesser
from forebay.engine.request import GenerationRequest, SamplingParams
from forebay.engine.runner import SequenceSlice
from forebay.engine.scheduler import Scheduler, SchedulerLimits, SwapCosts
from forebay.engine.speculation import StepCosts
from tests.support.fake_runner import VOCAB, FakeRunner

FREE = StepCosts((1, 64), (1.0, 1.0))


class RepeatingRunner(FakeRunner):
    def _logits(self, part: SequenceSlice) -> Iterator[np.ndarray]:
        end = part.start + len(part.token_ids)
        held = self._slots[list(part.block_table)].reshape(-1)
        for length in range(end - part.num_sampled + 1, end + 1):
            row = np.zeros(VOCAB, dtype=np.float32)
            row[held[length - 3]] = 9.0
            yield row


def core(costs: StepCosts) -> EngineCore:
    scheduler = Scheduler(BlockPool(64, 4), SchedulerLimits(8, 64, 4, 4, 0.0, 1), SwapCosts(0, 1.0, 1.0))
    model_tokens = ModelTokens(VOCAB, lambda ids, _: "." * len(ids), frozenset())
    return EngineCore(RepeatingRunner(64, 4), scheduler, model_tokens, Guesser(costs))


def request(prompt: tuple[int, ...]) -> GenerationRequest:
    return GenerationRequest("r", prompt, SamplingParams(temperature=0.0))


def test_a_text_that_repeats_itself_comes_in_few_steps_and_no_guess_goes_beyond_its_length():
    engine = core(FREE)
    engine.add(request((1, 2, 3)), 17, 0.0)
    told = [[update.token_ids for _, update in engine.step(0.0)] for _ in range(9)]
    assert engine.idle
    assert [token for (ids,) in filter(None, told) for token in ids] == ([1, 2, 3] * 7)[:17]
    assert engine.totals.draft_tokens == engine.totals.accepted_draft_tokens >= 9


def test_guesses_that_were_right_are_expected_to_be_right_again():
    engine = core(FREE)
    generation = engine.add(request((1, 2, 3)), 40, 0.0)
    for _ in range(6):
        engine.step(0.0)
    assert generation.drafting is not None
    assert generation.drafting.acceptance > 0.9


def test_nobody_guesses_beside_a_prompt():
    engine = core(FREE)
    engine.add(request((1, 2, 3) * 3), 40, 0.0)
    for _ in range(5):
        engine.step(0.0)
    before = engine.totals.draft_tokens
    assert before > 0
    prompt = engine.add(request(tuple(range(10, 20))), 2, 0.0)  # in chunks of 4
    while prompt.sequence.awaits_first_token:
        engine.step(0.0)
    assert engine.totals.draft_tokens == before


def test_nobody_guesses_where_even_a_right_guess_costs_as_much_as_it_brings():
    engine = core(StepCosts((1, 64), (1.0, 64.0)))
    engine.add(request((1, 2, 3) * 3), 20, 0.0)
    while not engine.idle:
        engine.step(0.0)
    assert engine.totals.draft_tokens == 0
