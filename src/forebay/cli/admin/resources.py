"""What the commands of all kinds of resources do alike."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from forebay.administration.kinds import Kind
from forebay.cli.admin.api import AdminApi, AdminFailure, Answer
from forebay.cli.admin.calling import Via, calling
from forebay.cli.admin.columns import COLUMNS, record_of
from forebay.cli.admin.tables import print_json, print_record, print_table
from forebay.core.errors import InvalidRequest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NOT_FOUND = 404


def given_fields(flags: "DataclassInstance | None") -> dict[str, Any]:
    """The flags that were given, by name: those that are not None."""
    if flags is None:
        return {}
    named = {field.name: getattr(flags, field.name) for field in fields(flags)}
    return {name: value for name, value in named.items() if value is not None}


def list_resources(via: Via | None, kind: Kind[Any], where: Mapping[str, object] | None = None) -> int:
    async def work(api: AdminApi, via: Via) -> None:
        rows, body = await api.rows(kind.name, where)
        if via.json:
            print_json(body)
        else:
            print_table(COLUMNS[kind.name], rows, f"There are no {kind.name}.")

    return calling(via, work)


def show_resource(via: Via | None, kind: Kind[Any], id_: str) -> int:
    async def work(api: AdminApi, via: Via) -> None:
        answer = await api.get(kind.name, id_)
        if via.json:
            print_json(answer.body)
        else:
            print_record(record_of(answer.row()))

    return calling(via, work)


def create_resource(via: Via | None, kind: Kind[Any], body: Mapping[str, object]) -> int:
    async def work(api: AdminApi, via: Via) -> None:
        tell_written(via, kind, await api.create(kind.name, body), created=True)

    return calling(via, work)


def change_resource(via: Via | None, kind: Kind[Any], id_: str, patch: Mapping[str, object]) -> int:
    """Raises InvalidRequest where nothing is to be changed."""
    require_change(patch)

    async def work(api: AdminApi, via: Via) -> None:
        tell_written(via, kind, await api.change(kind.name, id_, patch), created=False)

    return calling(via, work)


def set_resource(
    via: Via | None, kind: Kind[Any], id_: str, identity: Mapping[str, object], patch: Mapping[str, object]
) -> int:
    """Change what is there; create it with `identity` where nothing is. Raises InvalidRequest as above."""
    require_change(patch)

    async def work(api: AdminApi, via: Via) -> None:
        try:
            answer, created = await api.change(kind.name, id_, patch), False
        except AdminFailure as failure:
            said = {name: value for name, value in patch.items() if value is not None}
            if failure.status != NOT_FOUND or not said:
                raise
            answer, created = await api.create(kind.name, {**identity, **said}), True
        tell_written(via, kind, answer, created=created)

    return calling(via, work)


def delete_resource(via: Via | None, kind: Kind[Any], id_: str) -> int:
    """With `--json` nothing is printed, as the API answers nothing."""

    async def work(api: AdminApi, via: Via) -> None:
        await api.delete(kind.name, id_)
        if not via.json:
            print(f"The {kind.noun} {id_} is deleted.")

    return calling(via, work)


def tell_written(via: Via, kind: Kind[Any], answer: Answer, *, created: bool) -> None:
    if via.json:
        print_json(answer.body)
        return
    row = answer.row()
    print(f"The {kind.noun} {row['id']} is {'created' if created else 'as follows'}:")
    print_table(COLUMNS[kind.name], [row], "")


def require_change(patch: Mapping[str, object]) -> None:
    if not patch:
        raise InvalidRequest("Nothing is to be changed: give at least one of the flags that `--help` lists.")
