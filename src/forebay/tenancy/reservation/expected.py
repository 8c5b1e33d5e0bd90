"""How long a model's outputs are likely to be, learned from those that ended."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field

STEPS_PER_DOUBLING = 4
"""A bucket's upper edge is at most 2^(1/4), 19%, above what falls into it."""
BUCKETS = 32 * STEPS_PER_DOUBLING
HALF_LIFE = 500
"""Notes after which one weighs half."""
GROWTH = 2 ** (1 / HALF_LIFE)
LARGEST_WEIGHT = 1e12
LEAST_NOTES = 20
"""With fewer the default holds."""
MAX_ALIASES = 1000
QUANTILE = 0.95


@dataclass(slots=True)
class Lengths:
    """A histogram in steps of 2^(1/4). Instead of all weights falling with each note, that of the next one rises."""

    weights: list[float] = field(default_factory=lambda: [0.0] * BUCKETS)
    next_weight: float = 1.0
    notes: int = 0

    def note(self, tokens: int) -> None:
        self.weights[_bucket(tokens)] += self.next_weight
        self.next_weight *= GROWTH
        self.notes += 1
        if self.next_weight > LARGEST_WEIGHT:
            self.weights = [weight / self.next_weight for weight in self.weights]
            self.next_weight = 1.0

    def quantile(self, share: float) -> int:
        """The upper edge of the bucket that it lies in."""
        remaining = share * math.fsum(self.weights)
        for index, weight in enumerate(self.weights):
            remaining -= weight
            if remaining <= 0:
                return _edge(index)
        return _edge(BUCKETS - 1)


class OutputLengths:
    """Of the aliases noted last, MAX_ALIASES at most. `default`: tokens, where too little is known."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._aliases: OrderedDict[str, Lengths] = OrderedDict()

    def note(self, alias: str, tokens: int) -> None:
        """An output of that alias ended by itself after so many tokens."""
        lengths = self._aliases.setdefault(alias, Lengths())
        self._aliases.move_to_end(alias)
        lengths.note(tokens)
        if len(self._aliases) > MAX_ALIASES:
            self._aliases.popitem(last=False)

    def p95(self, alias: str) -> int:
        """Tokens that 95 of 100 recent outputs did not pass (at most 19% too many)."""
        lengths = self._aliases.get(alias)
        if lengths is None or lengths.notes < LEAST_NOTES:
            return self._default
        return lengths.quantile(QUANTILE)


def _bucket(tokens: int) -> int:
    """The first bucket whose edge is not below."""
    if tokens <= 1:
        return 0
    guess = max(0, math.ceil(math.log2(tokens) * STEPS_PER_DOUBLING) - 1)
    while guess < BUCKETS - 1 and _edge(guess) < tokens:
        guess += 1
    return min(guess, BUCKETS - 1)


def _edge(index: int) -> int:
    """In tokens, rounded down: no whole number lies between."""
    return math.floor(2 ** (index / STEPS_PER_DOUBLING))
