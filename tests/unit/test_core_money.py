"""Dollars and nano-dollars."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.money import MoneyError, nanos_of, usd_of


@given(st.integers(0, 10**18))
def test_every_amount_comes_back_as_it_was(nanos: int) -> None:
    assert nanos_of(usd_of(nanos)) == nanos
    assert "E" not in f"{usd_of(nanos):f}"


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
