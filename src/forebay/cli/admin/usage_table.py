"""The Admin API's answer about usage, as tables and files."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from forebay.cli.admin.tables import NOTHING, Column, amount, limit
from forebay.core.errors import InvalidRequest
from forebay.core.money import usd_text
from forebay.metering.pricing import TOKENS_PER_PRICE

COUNTS = ("requests", "prompt_tokens", "cached_tokens", "output_tokens")
AMOUNTS = ("cost_usd", "prompt_usd", "output_usd", "usd_per_million_prompt", "usd_per_million_output")
TOTAL = "total"
SHOWN_DECIMALS = 4
LEAST_SHOWN = Decimal(1).scaleb(-SHOWN_DECIMALS)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class UsageTable:
    """`rows` and `total` have the groups, the counts, and the amounts as decimal dollars without an exponent; an amount
    for a million tokens is None where there were none, rounded to the nano-dollar.
    """

    groups: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    total: Mapping[str, Any]

    def columns(self) -> list[Column]:
        """As they are shown; cost is not parted where it takes no further column to see."""
        return [
            *(
                Column(name, lambda row, name=name: str(row[name] if row[name] is not None else NOTHING))
                for name in self.groups
            ),
            Column("requests", lambda row: limit(row["requests"]), "right"),
            Column("prompt", lambda row: limit(row["prompt_tokens"]), "right"),
            Column("cached", lambda row: limit(row["cached_tokens"]), "right"),
            Column("output", lambda row: limit(row["output_tokens"]), "right"),
            Column("cost USD", lambda row: shown_usd(row["cost_usd"]), "right"),
            Column("per 1M prompt", lambda row: shown_usd(row["usd_per_million_prompt"]), "right"),
            Column("per 1M output", lambda row: shown_usd(row["usd_per_million_output"]), "right"),
        ]

    def types(self) -> dict[str, str]:
        """Column → DuckDB's type."""
        return {
            **dict.fromkeys(self.groups, "VARCHAR"),
            **dict.fromkeys(COUNTS, "BIGINT"),
            **dict.fromkeys(AMOUNTS, "DECIMAL(28, 9)"),
        }

    def shown_rows(self) -> list[dict[str, Any]]:
        """With the total below."""
        total = {name: TOTAL if index == 0 else "" for index, name in enumerate(self.groups)}
        return [*map(dict, self.rows), {**self.total, **total}]


def shown_usd(usd: str | None) -> str:
    """With four decimals; all that it has, where those would be zeros alone."""
    tiny = usd is not None and 0 < abs(Decimal(usd)) < LEAST_SHOWN
    return amount(usd, None if tiny else SHOWN_DECIMALS)


def usage_table(answer: Mapping[str, Any]) -> UsageTable:
    groups = list(answer["group_by"])
    rows = [{**{name: row.get(name) for name in groups}, **_figures(row)} for row in answer["data"]]
    return UsageTable(groups, rows, _figures(answer["total"]))


def write_csv(file: Path, table: UsageTable, month: str) -> None:
    """A line for each row and, with empty groups, the total. Raises InvalidRequest where it cannot be written."""
    names = [*table.groups, *COUNTS, *AMOUNTS]
    try:
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["month", *names])
            for row in (*table.rows, table.total):
                writer.writerow([month, *(_cell(row.get(name)) for name in names)])
    except OSError as error:
        raise InvalidRequest(f"--csv: {file} cannot be written ({error.strerror}).") from None


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """Prompts' part of the cost is told by gateways that know it."""
    cost, prompt = row["cost_nanos"], row.get("prompt_nanos")
    output = None if prompt is None else cost - prompt
    return {
        **{name: row[name] for name in COUNTS},
        "cost_usd": _usd(cost),
        "prompt_usd": _usd(prompt),
        "output_usd": _usd(output),
        "usd_per_million_prompt": _usd(_per_million(prompt, row["prompt_tokens"])),
        "usd_per_million_output": _usd(_per_million(output, row["output_tokens"])),
    }


def _per_million(nanos: int | None, tokens: int) -> int | None:
    if nanos is None or tokens == 0:
        return None
    return (2 * nanos * TOKENS_PER_PRICE + tokens) // (2 * tokens)


def _usd(nanos: int | None) -> str | None:
    return None if nanos is None else usd_text(nanos)


def _cell(value: Any) -> Any:
    """Spreadsheets take what begins so for a formula, and some names are a client's own choice."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if value is None else value
