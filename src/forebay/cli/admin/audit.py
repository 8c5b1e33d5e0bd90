"""`forebay audit …`: who changed what."""

from typing import Annotated

from cyclopts import Parameter

from forebay.cli.admin.api import AdminApi
from forebay.cli.admin.calling import Via, calling
from forebay.cli.admin.columns import COLUMNS
from forebay.cli.admin.secrecy import key_id_of
from forebay.cli.admin.tables import print_json, print_table


def list_(
    *,
    limit: Annotated[int, Parameter(help="At most so many, 1 to 1000.")] = 50,
    before: Annotated[int | None, Parameter(help="Only those of a lower number.")] = None,
    kind: Annotated[str | None, Parameter(help="Only those of a kind: tenants, keys, quotas, prices, prompts.")] = None,
    id_: Annotated[str | None, Parameter(name="--id", help="Only those of the resource of this id.")] = None,
    actor: Annotated[str | None, Parameter(help="Only those that this key made, by its id.")] = None,
    via: Via | None = None,
) -> int:
    """List changes, newest first; `--json` has each with what was before and after."""
    query = {
        "limit": limit,
        "before": before,
        "kind": kind,
        "id": id_,
        "actor": actor if actor is None else key_id_of(actor, "--actor"),
    }

    async def work(api: AdminApi, via: Via) -> None:
        answer = await api.call("GET", "/admin/v1/audit", query=query)
        if via.json:
            print_json(answer.body)
        else:
            print_table(COLUMNS["audit"], answer.row()["data"], "There are no changes.")

    return calling(via, work)
