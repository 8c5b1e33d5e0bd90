"""`forebay usage reconcile`: whether what is billed is what the engines counted."""

import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from forebay.api.usage import read_time
from forebay.cli.admin.api import AdminApi
from forebay.cli.admin.calling import Via, calling
from forebay.cli.admin.inputs import INPUT, duration_s
from forebay.cli.admin.reconcile_logs import local_logs, logs_of, read_logs
from forebay.cli.admin.reconcile_records import billed_in
from forebay.cli.admin.reconcile_table import Reconciliation, print_reconciliation
from forebay.config.loading import load_config, process_environment
from forebay.core.calendar import LAST_DAY
from forebay.core.errors import InvalidRequest
from forebay.metering.reconciliation import Terms, by_pool, reconcile

DAY_S = 86400.0
BEYOND_S = 3600.0
"""A request may end by its record so much before or after it ended by its engine's log, as after a gateway's death."""
FIRST_TIME = 100_000_000.0
"""In 1973, Unix seconds: the API takes fewer digits for a year."""
EXIT_DRIFT = 1


def reconcile_usage(
    *,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="2026-11, 2026-11-01, a time of RFC 3339; else a day before --to."),
    ] = None,
    to: Annotated[str | None, Parameter(help="Likewise; is not counted itself. Else now.")] = None,
    engine_log: Annotated[
        tuple[Path, ...],
        INPUT,
        Parameter(negative="", help="An engine's log, - for standard input; may be repeated. Else the local pools'."),
    ] = (),
    tolerance: Annotated[
        float, Parameter(help="The share of an engine's count that may be billed too much or too little.")
    ] = 0.0,
    by: Annotated[
        Literal["request", "pool"], Parameter(help="Pools, or the single requests that do not agree.")
    ] = "pool",
    grace: Annotated[
        str, Parameter(help="How long ago (10m) what only one side knows of must have ended to be told as drift.")
    ] = "15m",
    via: Via | None = None,
) -> int:
    """Compare what is billed with what the engines' logs say; the exit code is 1 where they differ."""
    now = time.time()
    ends = now if to is None else read_time(to, "--to")
    begins = ends - DAY_S if from_ is None else read_time(from_, "--from")
    if begins >= ends:
        raise InvalidRequest("--from: it is not before --to.")
    if not 0 <= tolerance < 1:
        raise InvalidRequest(f"--tolerance: expected a share of 0 to 1 such as 0.001, got {tolerance:g}.")
    terms = Terms(begins=begins, ends=ends, now=now, grace_s=duration_s(grace, "--grace"), tolerance=tolerance)

    async def work(api: AdminApi, via: Via) -> int:
        logs = logs_of(engine_log) or local_logs(load_config(via.config, process_environment()).data_dir)
        # The records first: an engine writes of a request at once.
        billed = await billed_in(api, max(begins - BEYOND_S, FIRST_TIME), min(ends + BEYOND_S, LAST_DAY))
        rows = reconcile(billed, read_logs(logs), terms)
        made = Reconciliation.of(rows, by_pool(rows, tolerance), terms, by)
        if via.json:
            print(msgspec.json.encode(made).decode())
        else:
            print_reconciliation(made)
        return EXIT_DRIFT if made.drift else 0

    return calling(via, work)
