"""`forebay settings`: what can be configured."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forebay.config.documentation import reference_table
from forebay.core.errors import ConfigurationError

BEGIN = "<!-- settings: written by `make docs` -->\n"
END = "<!-- settings: end -->\n"


def settings(
    *,
    write_into: Annotated[Path | None, Parameter(help="Replace the table in this Markdown file instead.")] = None,
) -> None:
    """Print every setting with its type, its default and what it does, as a Markdown table."""
    if write_into is None:
        print(reference_table(), end="")
    else:
        write_into.write_text(with_table(write_into.read_text(encoding="utf-8"), str(write_into)), encoding="utf-8")


def with_table(text: str, name: str) -> str:
    """The text with the table between its marks written anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigurationError(
            f"{name} lacks the lines {BEGIN.strip()} and {END.strip()}, between which the table goes."
        )
    return before + begin + reference_table() + end + after
