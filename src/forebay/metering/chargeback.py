"""What a month's usage is charged to."""

import csv
import io
from collections.abc import Sequence

import msgspec

from forebay.core.money import usd_of
from forebay.metering.months import month_bounds
from forebay.metering.pricing import TOKENS_PER_PRICE
from forebay.metering.report import UsageBooks

GROUPS = ("tenant", "model_version", "priority")


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant used of a model version in a class; in the total of a month all three are None.

    Costs in nano-dollars; `prompt_nanos` and `output_nanos` sum to `cost_nanos`. What a million tokens came to is
    rounded to the nano-dollar, and None where there were none. Cached tokens are part of the prompt's.
    """

    tenant: str | None
    model_version: str | None
    priority: str | None
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nanos: int
    prompt_nanos: int
    output_nanos: int
    nanos_per_million_prompt: int | None
    nanos_per_million_output: int | None


class Chargeback(msgspec.Struct, frozen=True):
    """A month (`2026-11`), its charges in the order of tenant, model version and class, and their total."""

    month: str
    charges: Sequence[Charge]
    total: Charge


async def chargeback(books: UsageBooks, month: str) -> Chargeback:
    """Raises InvalidRequest and StoreUnavailable."""
    rows = await books.query(*month_bounds(month), GROUPS, {})
    charges = [
        _charge(
            (row.group["tenant"], row.group["model_version"], row.group["priority"]),
            (row.requests, row.prompt_tokens, row.cached_tokens, row.output_tokens),
            row.cost_nanos,
            row.prompt_nanos,
        )
        for row in rows
    ]
    total = _charge(
        (None, None, None),
        (
            sum(charge.requests for charge in charges),
            sum(charge.prompt_tokens for charge in charges),
            sum(charge.cached_tokens for charge in charges),
            sum(charge.output_tokens for charge in charges),
        ),
        sum(charge.cost_nanos for charge in charges),
        sum(charge.prompt_nanos for charge in charges),
    )
    return Chargeback(month, charges, total)


def as_csv(report: Chargeback) -> str:
    """A line for each charge and, with an empty tenant, the total. Money in dollars."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(
        (
            *("month", "tenant", "model_version", "priority", "requests"),
            *("prompt_tokens", "cached_tokens", "output_tokens", "cost_usd", "prompt_usd", "output_usd"),
            *("usd_per_million_prompt", "usd_per_million_output"),
        )
    )
    for charge in (*report.charges, report.total):
        writer.writerow(
            (
                *(report.month, _text(charge.tenant), _text(charge.model_version), _text(charge.priority)),
                *(charge.requests, charge.prompt_tokens, charge.cached_tokens, charge.output_tokens),
                *(_usd(charge.cost_nanos), _usd(charge.prompt_nanos), _usd(charge.output_nanos)),
                *(_usd(charge.nanos_per_million_prompt), _usd(charge.nanos_per_million_output)),
            )
        )
    return text.getvalue()


def _charge(
    group: tuple[str | None, str | None, str | None],
    counts: tuple[int, int, int, int],
    cost_nanos: int,
    prompt_nanos: int,
) -> Charge:
    requests, prompt_tokens, cached_tokens, output_tokens = counts
    output_nanos = cost_nanos - prompt_nanos
    return Charge(
        tenant=group[0],
        model_version=group[1],
        priority=group[2],
        requests=requests,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
        cost_nanos=cost_nanos,
        prompt_nanos=prompt_nanos,
        output_nanos=output_nanos,
        nanos_per_million_prompt=_per_million(prompt_nanos, prompt_tokens),
        nanos_per_million_output=_per_million(output_nanos, output_tokens),
    )


def _per_million(nanos: int, tokens: int) -> int | None:
    return (2 * nanos * TOKENS_PER_PRICE + tokens) // (2 * tokens) if tokens else None


def _usd(nanos: int | None) -> str:
    return "" if nanos is None else f"{usd_of(nanos):f}"


def _text(name: str | None) -> str:
    """Spreadsheets take what begins so for a formula, and some names are a client's own choice."""
    if name is None:
        return ""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
