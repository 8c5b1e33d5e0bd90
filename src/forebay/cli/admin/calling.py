"""What all commands of operators have in common: where they go, and how they fail."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter
from rich.console import Console
from rich.text import Text

from forebay.cli.admin.access import GivenAccess, gateway_access
from forebay.cli.admin.api import AdminApi, AdminFailure, open_api
from forebay.cli.admin.wording import in_our_words
from forebay.cli.failures import EXIT_FAILED
from forebay.config.loading import process_environment

GATEWAY = Group("The gateway", sort_key=100)


@Parameter(name="*", group=GATEWAY)
@dataclass(frozen=True, slots=True, kw_only=True)
class Via:
    """How the gateway is found."""

    url: Annotated[
        str | None,
        Parameter(help="Its address; else $FOREBAY_URL, else where the local configuration lets it listen."),
    ] = None
    api_key: Annotated[
        str | None,
        Parameter(help="A key with the scope admin; else $FOREBAY_API_KEY, else the local operator's."),
    ] = None
    config: Annotated[
        Path | None, Parameter(help="TOML file of the local configuration, as `forebay serve` takes it.")
    ] = None
    json: Annotated[bool, Parameter(name="--json", negative="", help="Print the API's own JSON.")] = False


def calling(via: Via | None, work: Callable[[AdminApi, Via], Awaitable[int | None]]) -> int:
    """Do `work` with the API that `via` names; returns the exit code."""
    via = via or Via()
    access = gateway_access(GivenAccess(via.url, via.api_key, via.config), process_environment())

    async def run() -> int:
        async with open_api(access) as api:
            return await work(api, via) or 0

    try:
        return asyncio.run(run())
    except AdminFailure as failure:
        tell_failure(failure)
        return EXIT_FAILED


def tell_failure(failure: AdminFailure) -> None:
    """On standard error."""
    Console(file=sys.stderr, soft_wrap=True, highlight=False).print(
        Text.assemble((f"{failure.title}: ", "bold red"), in_our_words(failure.detail))
    )
