"""Which sequences of a step try which guesses."""

from collections.abc import Collection

from forebay.engine.generation import Generation
from forebay.engine.speculation import StepCosts, draft_lengths, may_pay


class Guesser:
    """Gives sequences their drafts before a step, as far as steps of so many tokens are known to pay."""

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs

    def give(self, generations: Collection[Generation]) -> None:
        """None in a step that computes a prompt as well: there each guess costs as much as a prompt's token."""
        for generation in generations:
            generation.sequence.draft = ()
        decoding = [g for g in generations if g.sequence.block_table and g.sequence.num_behind == 1]
        if len(decoding) < len(generations) or not decoding or not may_pay(len(decoding), self._costs):
            return
        guesses = [(g, g.drafting, g.drafting.guess(g.num_left - 1)) for g in decoding if g.drafting is not None]
        lengths = draft_lengths(
            [drafting.acceptance for _, drafting, _ in guesses],
            [len(guess) for _, _, guess in guesses],
            len(decoding),
            self._costs,
        )
        for (generation, _, guess), length in zip(guesses, lengths, strict=True):
            generation.sequence.draft = guess[:length]
