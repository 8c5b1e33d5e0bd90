"""Tables and records on a terminal: what must be copied is never cut or broken, however narrow it is."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Literal, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

NOTHING = "–"
GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """`text` makes a row's cell."""

    header: str
    text: Callable[[dict[str, Any]], str]
    align: Literal["left", "right"] = "left"


def print_table(
    columns: Sequence[Column], rows: Sequence[dict[str, Any]], none: str, file: TextIO | None = None
) -> None:
    """`none` is said where there are no rows."""
    if not rows:
        print(none, file=file or sys.stdout)
        return
    console = Console(file=file, highlight=False, soft_wrap=True)
    texts = [[column.header for column in columns], *([column.text(row) for column in columns] for row in rows)]
    rights = [column.align == "right" for column in columns]
    header, *lines = layout(texts, rights, console.width)
    for line in header:
        console.print(Text(line, style="bold"))
    for line in (line for cells in lines for line in cells):
        console.print(Text(line))


def print_record(fields: Sequence[tuple[str, str]], file: TextIO | None = None) -> None:
    """One thing: a line for each field."""
    console = Console(file=file, highlight=False, soft_wrap=True)
    width = max(cell_len(name) for name, _ in fields)
    for name, value in fields:
        first, *rest = value.splitlines() or [""]
        console.print(Text.assemble((name.ljust(width), "bold"), " " * GAP, first))
        for line in rest:
            console.print(Text(" " * (width + GAP) + line))


def layout(rows: Sequence[Sequence[str]], rights: Sequence[bool], width: int) -> list[list[str]]:
    """The lines of each row, the first being the headers, in columns of which those in `rights` stand at the right.
    What is wider than `width` is broken between words, but numbers are not parted from their units, and no word is
    cut: where that is not enough, lines are longer.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(cell_len(cell) for cell in cells) for cells in columns]
    least = [_least(cells, right) for cells, right in zip(columns, rights, strict=True)]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    for _ in range(excess):
        index = max(range(len(widths)), key=lambda each: widths[each] - least[each])
        if widths[index] == least[index]:
            break
        widths[index] -= 1
    return [_row_lines(row, rights, widths) for row in rows]


def _least(cells: Sequence[str], right: bool) -> int:
    header, *values = cells
    words = header.split() + (values if right else [word for value in values for word in value.split()])
    return max((cell_len(word) for word in words), default=0)


def _row_lines(row: Sequence[str], rights: Sequence[bool], widths: Sequence[int]) -> list[str]:
    broken = [_broken(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines: list[str] = []
    for parts in zip_longest(*broken, fillvalue=""):
        pads = [" " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True)]
        cells = [pad + part if right else part + pad for pad, part, right in zip(pads, parts, rights, strict=True)]
        lines.append((" " * GAP).join(cells).rstrip())
    return lines


def _broken(text: str, width: int) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if line and cell_len(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line]


def print_json(body: bytes, file: TextIO | None = None) -> None:
    print(body.decode("utf-8"), file=file or sys.stdout)


def limit(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def amount(value: str | float | None, decimals: int | None = None) -> str:
    """At least two decimals, all that it has, or `decimals`."""
    if value is None:
        return NOTHING
    exact = Decimal(str(value))
    shown = max(2, -int(exact.normalize().as_tuple().exponent)) if decimals is None else decimals
    return f"{exact:,.{shown}f}"


def money(value: str | float | None, decimals: int | None = None) -> str:
    """An amount with its currency."""
    return NOTHING if value is None else f"{amount(value, decimals)} USD"


def yes_no(value: bool) -> str:
    return "yes" if value else "no"


def listed(values: Sequence[str] | None, none: str = NOTHING) -> str:
    """`none` is what None means."""
    return none if values is None else ", ".join(values) or NOTHING
