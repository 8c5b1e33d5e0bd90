"""What tokens cost, against exact fractions."""

from decimal import Decimal
from fractions import Fraction
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from forebay.metering.pricing import (
    ANY,
    FREE,
    Price,
    PriceBook,
    PriceTerms,
    cost_nanos,
    cost_split,
    most_prompt_nanos,
    nanos_per_output_token,
)
from forebay.metering.usage import TokenUsage

PRICES = st.integers(0, 10**18)
TOKENS = st.integers(0, 10**9)


@st.composite
def terms(draw: st.DrawFn) -> PriceTerms:
    return PriceTerms("v", draw(PRICES), draw(PRICES), draw(PRICES))


@st.composite
def usages(draw: st.DrawFn) -> TokenUsage:
    prompt = draw(TOKENS)
    return TokenUsage(prompt_tokens=prompt, cached_tokens=draw(st.integers(0, prompt)), output_tokens=draw(TOKENS))


def exact(price: PriceTerms, used: TokenUsage) -> Fraction:
    fresh = used.prompt_tokens - used.cached_tokens
    return (
        Fraction(fresh * price.prompt_nanos_per_million, 10**6)
        + Fraction(used.cached_tokens * price.cached_nanos_per_million, 10**6)
        + Fraction(used.output_tokens * price.output_nanos_per_million, 10**6)
    )


@given(terms(), usages())
def test_a_cost_is_the_nearest_nano_dollar_and_half_goes_up(price: PriceTerms, used: TokenUsage):
    off = cost_nanos(price, used) - exact(price, used)
    assert -Fraction(1, 2) < off <= Fraction(1, 2)


@given(terms(), usages())
def test_the_parts_of_a_cost_sum_to_it_and_are_near_their_own(price: PriceTerms, used: TokenUsage):
    prompt, output = cost_split(price, used)
    assert prompt + output == cost_nanos(price, used)
    assert prompt >= 0
    assert output >= 0
    own = exact(price, TokenUsage(prompt_tokens=used.prompt_tokens, cached_tokens=used.cached_tokens, output_tokens=0))
    assert abs(prompt - own) < 1


@given(terms(), usages(), st.integers(0, 1000), st.integers(0, 1000))
def test_more_tokens_never_cost_less(price: PriceTerms, used: TokenUsage, prompt: int, output: int):
    more = TokenUsage(
        prompt_tokens=used.prompt_tokens + prompt,
        cached_tokens=used.cached_tokens,
        output_tokens=used.output_tokens + output,
    )
    assert cost_nanos(price, more) >= cost_nanos(price, used)


@given(terms(), usages())
def test_cached_tokens_are_never_dearer_where_their_price_is_not(price: PriceTerms, used: TokenUsage):
    cheap = PriceTerms(
        "v",
        max(price.prompt_nanos_per_million, price.cached_nanos_per_million),
        min(price.prompt_nanos_per_million, price.cached_nanos_per_million),
        price.output_nanos_per_million,
    )
    uncached = TokenUsage(prompt_tokens=used.prompt_tokens, cached_tokens=0, output_tokens=used.output_tokens)
    assert cost_nanos(cheap, used) <= cost_nanos(cheap, uncached)


@given(terms(), usages(), usages())
def test_two_requests_cost_what_one_of_both_would_within_rounding(price: PriceTerms, a: TokenUsage, b: TokenUsage):
    both = TokenUsage(
        prompt_tokens=a.prompt_tokens + b.prompt_tokens,
        cached_tokens=a.cached_tokens + b.cached_tokens,
        output_tokens=a.output_tokens + b.output_tokens,
    )
    assert abs(cost_nanos(price, both) - cost_nanos(price, a) - cost_nanos(price, b)) <= 1


@given(terms(), usages())
def test_what_is_reserved_covers_the_cost(price: PriceTerms, used: TokenUsage):
    most = most_prompt_nanos(price, used.prompt_tokens) + used.output_tokens * nanos_per_output_token(price)
    assert most >= cost_nanos(price, used)


@given(terms(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_cached_than_prompt_tokens_count_as_all_of_the_prompt(price: PriceTerms, prompt: int, beyond: int):
    told = TokenUsage(prompt_tokens=prompt, cached_tokens=prompt + beyond, output_tokens=0)
    whole = TokenUsage(prompt_tokens=prompt, cached_tokens=prompt, output_tokens=0)
    assert cost_nanos(price, told) == cost_nanos(price, whole)


MODELS = st.sampled_from([ANY, "large", "small"])
CLASSES: st.SearchStrategy[Literal["*", "interactive", "batch"]] = st.sampled_from(["*", "interactive", "batch"])


@st.composite
def price_lists(draw: st.DrawFn) -> list[Price]:
    rows = draw(st.lists(st.tuples(MODELS, CLASSES, st.integers(0, 5)), max_size=12))
    return [
        Price(
            id=f"p{number:02}",
            model=model,
            priority=priority,
            prompt_usd_per_million=Decimal(number),
            output_usd_per_million=Decimal(0),
            effective_from=float(begins),
        )
        for number, (model, priority, begins) in enumerate(rows)
    ]


@given(
    price_lists(), st.sampled_from(["large", "small"]), st.sampled_from(["interactive", "batch"]), st.integers(-1, 6)
)
def test_the_most_specific_price_in_effect_is_found(prices: list[Price], model: str, priority: str, when: int):
    fitting = [
        (price.model != ANY, price.priority != ANY, price.effective_from, price.id)
        for price in prices
        if price.model in {model, ANY} and price.priority in {priority, ANY} and price.effective_from <= when
    ]
    expected = max(fitting)[3] if fitting else FREE.version
    assert PriceBook(prices).at(model, priority, when).version == expected


@given(price_lists())
def test_the_order_in_which_prices_are_given_does_not_matter(prices: list[Price]):
    turned = list(reversed(prices))
    for when in range(-1, 7):
        assert PriceBook(prices).at("large", "batch", when) == PriceBook(turned).at("large", "batch", when)
