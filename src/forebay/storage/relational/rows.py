"""From a resource to the row that it is kept as, and back."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Table

from forebay.administration.kinds import KINDS, Kind
from forebay.administration.store import Stored
from forebay.core.errors import InvalidRequest
from forebay.core.money import nanos_of, usd_of
from forebay.storage.relational.tables import METADATA

R = TypeVar("R", bound=msgspec.Struct)

USD = "_usd"
NANOS = "_nanos"
REVISION = "revision"
UPDATED_AT = "updated_at"


def table_of(kind: Kind[Any]) -> Table:
    return METADATA.tables[kind.name]


def kind_named(name: str) -> Kind[Any]:
    return next(kind for kind in KINDS if kind.name == name)


def columns_of(value: msgspec.Struct) -> dict[str, Any]:
    """Column → what is kept there. Raises InvalidRequest where a text cannot be kept in every database."""
    columns = {}
    for field, held in msgspec.structs.asdict(value).items():
        for string in _strings_in(held):
            _require_storable(field, string)
        columns[field.replace(USD, NANOS)] = _kept(held)
    return columns


def resource_of(kind: Kind[R], row: Mapping[str, Any]) -> R:
    """The resource that a row of its kind keeps."""
    fields = {}
    for field in kind.type.__struct_fields__:
        fields[field] = _read(field, row[field.replace(USD, NANOS)])
    return kind.type(**fields)


def stored_of(kind: Kind[R], row: Mapping[str, Any]) -> Stored[R]:
    return Stored(resource_of(kind, row), row[REVISION], row[UPDATED_AT])


def told(kind: Kind[R], value: R) -> dict[str, Any]:
    """A resource in JSON's own types, without its secrets: what the audit log keeps."""
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return {name: held for name, held in fields.items() if name not in kind.secrets}


def _kept(held: object) -> object:
    if isinstance(held, Decimal):
        return nanos_of(held)
    return list(held) if isinstance(held, tuple) else held  # pyright: ignore[reportUnknownArgumentType]


def _read(field: str, held: Any) -> object:
    if isinstance(held, list):
        return tuple(held)  # pyright: ignore[reportUnknownArgumentType]
    return usd_of(held) if USD in field and held is not None else held


def _strings_in(held: object) -> Iterable[str]:
    match held:
        case str():
            yield held
        case tuple():
            yield from (item for item in held if isinstance(item, str))
        case dict():
            yield from (item for pair in held.items() for item in pair if isinstance(item, str))
        case _:
            return


def _require_storable(field: str, string: str) -> None:
    """Postgres keeps no zero characters, and no database keeps half a surrogate pair."""
    if "\0" in string or any("\ud800" <= character <= "\udfff" for character in string):
        raise InvalidRequest(
            f"{field} has a character that cannot be kept: a zero character, or half of a surrogate pair.", param=field
        )
