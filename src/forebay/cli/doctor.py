"""`forebay doctor`: what this machine can run, and what is wrong."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from forebay.cli.examinations import Finding, Verdict, configuration, machine, models, port, servers, shared
from forebay.config.loading import load_config, process_environment
from forebay.core.errors import ConfigurationError
from forebay.core.telemetry import configure_logging

MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "bold red")}


def doctor(
    *,
    config: Annotated[
        Path | None, Parameter(help="TOML file; ./forebay.toml where it is there, else the defaults.")
    ] = None,
) -> int:
    """Say what this machine can run and what is wrong, each with what to do; exit code 1 where anything is wrong."""
    # What is wrong is told below, in its place.
    configure_logging("error", "auto")
    console = Console(soft_wrap=True, highlight=False)
    verdicts: list[Verdict] = []
    for finding in _findings(config):
        mark, style = MARKS[finding.verdict]
        console.print(
            Text.assemble((f"{mark} {finding.subject:<26}", style), finding.text.replace("\n", "\n" + " " * 28))
        )
        verdicts.append(finding.verdict)
    console.print("\n" + _summary(verdicts))
    return 1 if "wrong" in verdicts else 0


def _summary(verdicts: list[Verdict]) -> str:
    if wrong := verdicts.count("wrong"):
        return f"{wrong} to mend."
    if notes := verdicts.count("note"):
        return f"Nothing is certainly wrong, but look at what is marked with ! ({notes})."
    return "All is well: `forebay serve` starts it."


def _findings(config: Path | None) -> Iterator[Finding]:
    yield from machine()
    try:
        loaded = load_config(config, process_environment())
    except ConfigurationError as error:
        yield Finding("wrong", "configuration", error.detail)
        return
    yield from configuration(loaded)
    yield asyncio.run(port(loaded))
    yield from models(loaded)
    yield from asyncio.run(shared(loaded))
    yield from asyncio.run(servers(loaded))
