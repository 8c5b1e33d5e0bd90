"""`forebay usage …`: what was used, and what it cost."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forebay.api.usage import told_time
from forebay.cli.admin.api import AdminApi
from forebay.cli.admin.calling import Via, calling
from forebay.cli.admin.tables import print_json, print_table
from forebay.cli.admin.usage_table import usage_table, write_csv
from forebay.core.calendar import month_bounds
from forebay.storage.usage.report_file import write_report

USAGE = "/admin/v1/usage"
REPORT_GROUPS = "tenant,model_version,priority"
NONE = "Nothing was used."

GroupFlag = Annotated[
    str,
    Parameter(
        help="What is told apart, with commas: tenant, key, model, model_version, pool, priority, status, hour, day, "
        "month, tag:NAME."
    ),
]
TenantFlag = Annotated[str | None, Parameter(help="Only this tenant's.")]


def report(
    *,
    month: Annotated[str, Parameter(help="Such as 2026-11, in UTC.")],
    csv: Annotated[Path | None, Parameter(help="Write it to this file too, as CSV.")] = None,
    parquet: Annotated[Path | None, Parameter(help="Write it to this file too, as Parquet.")] = None,
    group_by: GroupFlag = REPORT_GROUPS,
    tenant: TenantFlag = None,
    via: Via | None = None,
) -> int:
    """A month's chargeback: tokens and cost, and what a million prompt and output tokens came to."""
    begins, ends = map(told_time, month_bounds(month, "--month"))

    async def work(api: AdminApi, via: Via) -> None:
        query = {"from": begins, "to": ends, "group_by": group_by, "tenant": tenant}
        answer = await api.call("GET", USAGE, query=query)
        table = usage_table(answer.row())
        if csv is not None:
            write_csv(csv, table, month)
        if parquet is not None:
            rows = [{"month": month, **row} for row in table.rows]
            write_report(parquet, {"month": "VARCHAR", **table.types()}, rows)
        if via.json:
            print_json(answer.body)
        else:
            print_table(table.columns(), table.shown_rows() if table.rows else [], NONE)

    return calling(via, work)


def show(
    *,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="2026-11, 2026-11-01, a time of RFC 3339; else this month's first moment."),
    ] = None,
    to: Annotated[str | None, Parameter(help="Likewise; is not counted itself. Else now.")] = None,
    group_by: GroupFlag = "tenant,model,priority",
    tenant: TenantFlag = None,
    via: Via | None = None,
) -> int:
    """Usage of any time."""

    async def work(api: AdminApi, via: Via) -> None:
        query = {"from": from_, "to": to, "group_by": group_by, "tenant": tenant}
        answer = await api.call("GET", USAGE, query=query)
        if via.json:
            print_json(answer.body)
            return
        table = usage_table(answer.row())
        print_table(table.columns(), table.shown_rows() if table.rows else [], NONE)

    return calling(via, work)
