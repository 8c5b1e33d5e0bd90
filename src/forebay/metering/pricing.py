"""What tokens cost."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, Protocol

import msgspec

from forebay.core.money import MoneyError, nanos_of
from forebay.metering.usage import TokenUsage

TOKENS_PER_PRICE = 10**6
ANY = "*"
PriceClass = Literal["*", "interactive", "standard", "batch"]
"""A priority class, or all of them."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One version of a price, in dollars for a million tokens, from `effective_from` (Unix seconds) until the next one
    of the same `model` and `priority` begins. `model` is a pool's name or `*`, `priority` a class or `*`.

    `cached_usd_per_million` None is the price of other prompt tokens.
    """

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=400, pattern=r"^[!-~]+\Z")]
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] = ANY
    priority: PriceClass = ANY
    prompt_usd_per_million: Decimal
    cached_usd_per_million: Decimal | None = None
    output_usd_per_million: Decimal
    effective_from: float

    def __post_init__(self) -> None:
        for field in ("prompt_usd_per_million", "cached_usd_per_million", "output_usd_per_million"):
            if (amount := getattr(self, field)) is not None:
                try:
                    nanos_of(amount)
                except MoneyError as error:
                    raise ValueError(f"{field}: {error}") from None


@dataclass(frozen=True, slots=True)
class PriceTerms:
    """What a request's tokens cost: nano-dollars for a million tokens. `version` is the id of the price, None where no
    price is set, and then all is free.
    """

    version: str | None
    prompt_nanos_per_million: int
    cached_nanos_per_million: int
    output_nanos_per_million: int


FREE = PriceTerms(None, 0, 0, 0)


class Priced(Protocol):
    """What carries the three prices: `PriceTerms`, and usage that was opened."""

    @property
    def prompt_nanos_per_million(self) -> int: ...
    @property
    def cached_nanos_per_million(self) -> int: ...
    @property
    def output_nanos_per_million(self) -> int: ...


class PriceBook:
    """All prices that were ever set. Immutable; looking one up is two dictionary reads and a bisection."""

    def __init__(self, prices: Sequence[Price]) -> None:
        by_scope: dict[tuple[str, str], list[Price]] = {}
        # Of two that begin at the same moment, the one whose id is later counts, in whatever order they come.
        for price in sorted(prices, key=lambda price: (price.effective_from, price.id)):
            by_scope.setdefault((price.model, price.priority), []).append(price)
        self._begins = {scope: [price.effective_from for price in line] for scope, line in by_scope.items()}
        self._terms = {scope: [_terms(price) for price in line] for scope, line in by_scope.items()}

    def at(self, model: str, priority: str, when: float) -> PriceTerms:
        """What `model` (a pool's name) costs in class `priority` at `when` (Unix seconds): the most specific price that
        is in effect, the model counting more than the class.
        """
        for scope in ((model, priority), (model, ANY), (ANY, priority), (ANY, ANY)):
            begun = bisect_right(self._begins.get(scope, ()), when)
            if begun:
                return self._terms[scope][begun - 1]
        return FREE


def cost_nanos(terms: Priced, tokens: TokenUsage) -> int:
    """What `tokens` cost, exact to half a nano-dollar: the parts are summed first, then rounded once (half up)."""
    return _nearest(sum(_millionths(terms, tokens)))


def cost_split(terms: Priced, tokens: TokenUsage) -> tuple[int, int]:
    """`cost_nanos` in two: the prompt's part (with the cached tokens in it), rounded, and the rest for the output."""
    prompt, output = _millionths(terms, tokens)
    # The nearest to a part is never beyond the nearest to the whole: rounding keeps order.
    rounded = _nearest(prompt)
    return rounded, _nearest(prompt + output) - rounded


def _millionths(terms: Priced, tokens: TokenUsage) -> tuple[int, int]:
    """What the prompt and the output cost, exactly, in millionths of a nano-dollar."""
    cached = min(tokens.cached_tokens, tokens.prompt_tokens)
    prompt = (tokens.prompt_tokens - cached) * terms.prompt_nanos_per_million + cached * terms.cached_nanos_per_million
    return prompt, tokens.output_tokens * terms.output_nanos_per_million


def most_prompt_nanos(terms: Priced, prompt_tokens: int) -> int:
    """The most that a prompt of so many tokens can cost, however much of it is cached; rounded up."""
    return _up(prompt_tokens * max(terms.prompt_nanos_per_million, terms.cached_nanos_per_million))


def nanos_per_output_token(terms: Priced) -> int:
    """The most that each token of output adds to a cost; rounded up.

    `most_prompt_nanos(p) + n * nanos_per_output_token` covers `cost_nanos` of p prompt and n output tokens.
    """
    return _up(terms.output_nanos_per_million)


def _nearest(millionths: int) -> int:
    return (millionths + TOKENS_PER_PRICE // 2) // TOKENS_PER_PRICE


def _up(millionths: int) -> int:
    return -(-millionths // TOKENS_PER_PRICE)


def _terms(price: Price) -> PriceTerms:
    cached = price.prompt_usd_per_million if price.cached_usd_per_million is None else price.cached_usd_per_million
    return PriceTerms(
        price.id, nanos_of(price.prompt_usd_per_million), nanos_of(cached), nanos_of(price.output_usd_per_million)
    )
