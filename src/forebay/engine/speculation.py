"""Guess several tokens and let one step verify them all.

A guess is what followed the same tokens before, in the prompt or in the output (prompt lookup, Saxena 2023): good
where a text repeats itself, as an edited file or a quoted document does, and free. A draw depends on seed, position and
logits alone, so a guess is right exactly when it is what would have been drawn: the output is the same with and
without.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST_KEY = 3
_SHORTEST_KEY = 2
_LONGEST_MEMORY = 4096
"""Tokens of a prompt that are looked at, the last ones: a few milliseconds of work."""
MAX_DRAFT = 8
"""Guesses of one step."""
_PRIOR = 0.3
_MEMORY = 0.8
"""How much of the acceptance rate one more outcome leaves; after ten the old ones hardly count."""
_LEAST_GAIN = 1.1
"""What guesses must promise: times are measured on a machine that does other things too."""


class PromptLookup:
    """The places at which each few tokens stood, of one growing sequence."""

    def __init__(self) -> None:
        self._token_ids: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        """A run of tokens → the index after its last occurrence but one that ends the sequence."""

    def push(self, token_ids: Sequence[int]) -> None:
        """Add what has become known."""
        for token_id in token_ids:
            index = len(self._token_ids)
            for length in range(_SHORTEST_KEY, _LONGEST_KEY + 1):
                if index >= length:
                    self._after[tuple(self._token_ids[index - length :])] = index
            self._token_ids.append(token_id)

    def guess(self, count: int) -> list[int]:
        """Up to `count` tokens that may come next; none where the last ones are new."""
        known = self._token_ids
        for length in range(_LONGEST_KEY, _SHORTEST_KEY - 1, -1):
            start = self._after.get(tuple(known[-length:]))
            if start is not None:
                # Beyond the end, what repeats is taken to go on repeating.
                period = len(known) - start
                return [known[start + i % period] for i in range(count)]
        return []


class Drafting:
    """One generation's guesses and how they have done. Those that are not tried are learned from as well."""

    def __init__(self, token_ids: Sequence[int]) -> None:
        self._lookup = PromptLookup()
        self._not_looked_at = list(token_ids[-_LONGEST_MEMORY:])
        self._guess: list[int] = []
        self.acceptance = _PRIOR
        """The chance that a guessed token is right when those before it are."""

    def guess(self, most: int) -> list[int]:
        """What may come next, `most` tokens of it at most."""
        self._lookup.push(self._not_looked_at)
        self._not_looked_at = []
        self._guess = self._lookup.guess(min(most, MAX_DRAFT))
        return self._guess

    def learn(self, token_ids: Sequence[int], tried: int) -> None:
        """Add what has come, and see how the last guess has done: its first `tried` tokens, or, where none was tried,
        the first."""
        self._not_looked_at += token_ids
        for guessed, token_id in zip(self._guess[: max(tried, 1)], token_ids, strict=False):
            right = guessed == token_id
            self.acceptance = _MEMORY * self.acceptance + (1 - _MEMORY) * right
            if not right:
                break
        self._guess = []


@dataclass(frozen=True, slots=True)
class StepCosts:
    """How long a step of so many tokens takes, as measured: sizes rising from 1, and seconds."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    change_s: float = 0.0
    """What a step takes longer that has another size than the one before, as one with guesses mostly has."""

    def rate(self, num_decodes: int, num_guesses: int, expected: float) -> float:
        """Tokens a second of a step that decodes so many, tries so many guesses, and is expected to bring so much."""
        return expected / (self.of(num_decodes + num_guesses) + (self.change_s if num_guesses else 0.0))

    def of(self, num_tokens: int) -> float:
        """Seconds, interpolated; beyond the largest size in proportion."""
        if num_tokens >= self.sizes[-1]:
            return self.seconds[-1] * num_tokens / self.sizes[-1]
        upper = next(i for i, size in enumerate(self.sizes) if size > num_tokens)
        low, high = self.sizes[upper - 1], self.sizes[upper]
        part = (num_tokens - low) / (high - low)
        return self.seconds[upper - 1] + part * (self.seconds[upper] - self.seconds[upper - 1])


def may_pay(num_decodes: int, costs: StepCosts) -> bool:
    """Whether guesses that are certainly right would be worth their place in a step of so many decodes."""
    plain = costs.rate(num_decodes, 0, num_decodes)
    most = MAX_DRAFT * num_decodes
    return any(costs.rate(num_decodes, n, num_decodes + n) > plain * _LEAST_GAIN for n in range(1, most + 1))


def draft_lengths(acceptance: Sequence[float], most: Sequence[int], num_decodes: int, costs: StepCosts) -> list[int]:
    """How many guesses each sequence should try, so that a step brings the most tokens a second.

    `most` says how many guesses each has; the step decodes `num_decodes` sequences in all. The guess number d of a
    sequence is needed with probability acceptance ** d, and is worth its place in the order of that.
    """
    chances = sorted(
        ((rate**depth, index) for index, rate in enumerate(acceptance) for depth in range(1, most[index] + 1)),
        reverse=True,
    )
    best_rate = costs.rate(num_decodes, 0, num_decodes) * _LEAST_GAIN
    best_count = 0
    expected = float(num_decodes)
    for count, (chance, _) in enumerate(chances, start=1):
        expected += chance
        rate = costs.rate(num_decodes, count, expected)
        if rate > best_rate:
            best_rate, best_count = rate, count
    lengths = [0] * len(acceptance)
    for _, index in chances[:best_count]:
        lengths[index] += 1
    return lengths
