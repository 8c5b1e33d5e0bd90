"""Errors as a person at a terminal reads them, and as exit codes."""

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from forebay.core.errors import ConfigurationError, ForebayError, ModelFileError, UnsupportedMachine
from forebay.fleet.drivers.local import EXIT_NOT_RETRYABLE

EXIT_FAILED = 1
NOT_RETRYABLE = (ConfigurationError, ModelFileError, UnsupportedMachine)


def forebay_errors(error: BaseException) -> list[ForebayError] | None:
    """The errors of ours that an exception is made of; None where it is, or holds, anything else."""
    leaves = list(_leaves(error))
    ours = [leaf for leaf in leaves if isinstance(leaf, ForebayError)]
    return ours if len(ours) == len(leaves) else None


def report(errors: list[ForebayError]) -> int:
    """Tell of them on standard error; returns the exit code."""
    console = Console(file=sys.stderr, soft_wrap=True)
    for error in errors:
        console.print(Text.assemble((f"{error.title}: ", "bold red"), error.detail))
    return EXIT_NOT_RETRYABLE if all(isinstance(error, NOT_RETRYABLE) for error in errors) else EXIT_FAILED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for below in error.exceptions:
            yield from _leaves(below)
    else:
        yield error
