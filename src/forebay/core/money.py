"""Money: integer nano-dollars inside, decimal dollars wherever people read or write it."""

import re
from decimal import Context, Decimal, Inexact

NANOS_PER_USD = 10**9
MAX_USD = Decimal(10**9)
DECIMALS = 9
_NANO = Decimal(1).scaleb(-DECIMALS)
_EXACT = Context(prec=40, traps=[Inexact])
_AMOUNT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


class MoneyError(ValueError):
    """An amount that cannot be kept; the message says why and what can."""


def require_amount(text: str) -> None:
    """Raises MoneyError for what is no plain number, though Decimal may take it: underscores, blanks, other digits."""
    if _AMOUNT.fullmatch(text) is None:
        raise MoneyError(f"expected an amount such as 12.5, got {text!r}")


def nanos_of(usd: Decimal) -> int:
    """Dollars as nano-dollars, exactly. Raises MoneyError."""
    if not usd.is_finite() or not 0 <= usd <= MAX_USD:
        raise MoneyError(f"expected an amount of 0 to {MAX_USD:,} USD, got {usd}")
    try:
        return int(usd.quantize(_NANO, context=_EXACT).scaleb(DECIMALS, context=_EXACT))
    except Inexact:
        raise MoneyError(f"expected at most {DECIMALS} decimals, got {usd}") from None


def usd_of(nanos: int) -> Decimal:
    """Nano-dollars as dollars, without zeros that say nothing: 12500000000 → 12.5."""
    usd = (Decimal(nanos) / NANOS_PER_USD).normalize()
    return usd.quantize(Decimal(1)) if usd == usd.to_integral_value() else usd


def usd_text(nanos: int) -> str:
    """Nano-dollars as decimal dollars, never with an exponent: 1 → 0.000000001."""
    return f"{usd_of(nanos):f}"
