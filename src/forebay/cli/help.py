"""How help is laid out."""

import math
from collections.abc import Sequence

from cyclopts import Parameter
from cyclopts.help import ColumnSpec, DefaultFormatter, HelpEntry, NameRenderer
from cyclopts.help.specs import get_default_parameter_columns
from rich.console import Console, ConsoleOptions

WIDTH_OF_FLAGS = 0.45
"""Of the terminal: what the longest flag needs in 80 columns, where cyclopts' own 0.35 would break it in a word."""


def shown_default(value: object) -> str | None:
    """What `--help` says a flag is unless it is given; None where that goes without saying."""
    if value is None or value is False or value == ():
        return None
    return "on" if value is True else str(value)


DEFAULTS = Parameter(show_default=shown_default)
"""Of all flags, but for those that say otherwise."""


def wide_flags() -> DefaultFormatter:
    """A formatter for a command with long flags."""
    return DefaultFormatter(column_specs=_columns)


def _columns(console: Console, options: ConsoleOptions, entries: Sequence[HelpEntry]) -> tuple[ColumnSpec, ...]:
    width = math.ceil(console.width * WIDTH_OF_FLAGS)
    return tuple(
        column.copy(renderer=NameRenderer(max_width=width), max_width=width)
        if isinstance(column.renderer, NameRenderer)
        else column
        for column in get_default_parameter_columns(console, options, list(entries))
    )
