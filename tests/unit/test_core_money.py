"""Dollars and nano-dollars."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.money import MoneyError, nanos_of, require_amount, usd_of, usd_text


@given(st.integers(0, 10**18))
def test_every_amount_comes_back_as_it_was(nanos: int) -> None:
    assert nanos_of(usd_of(nanos)) == nanos
    assert "E" not in usd_text(nanos)


@pytest.mark.parametrize(
    ("text", "nanos"), [("0", 0), ("12.50", 12_500_000_000), ("1e-9", 1), ("1E+3", 10**12), ("0.1000000000000", 10**8)]
)
def test_dollars_are_read_exactly(text: str, nanos: int) -> None:
    assert nanos_of(Decimal(text)) == nanos


@pytest.mark.parametrize(
    "text",
    ["-1", "-0.000000001", "1000000000.000000001", "NaN", "Infinity", "1e-10", "0.1234567891", "1." + "0" * 40 + "1"],
)
def test_what_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(MoneyError):
        nanos_of(Decimal(text))


@pytest.mark.parametrize(
    "text", ["1_000", " 12", "12 ", "1e1_0", "\uff11\uff12", "\u0661", "", ".", "1,5", "NaN", "0x1"]
)
def test_what_is_no_plain_number_is_refused(text: str) -> None:
    with pytest.raises(MoneyError, match="such as"):
        require_amount(text)


@pytest.mark.parametrize("text", ["0", "12.50", "5.", ".5", "1e-9", "1E+3", "-1"])
def test_plain_numbers_are_amounts(text: str) -> None:
    require_amount(text)
