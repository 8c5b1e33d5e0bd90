"""From the JSON that an operator writes to a resource, with errors that name the field."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar, get_args

import msgspec

from forebay.administration.kinds import KEYS, PRICES, QUOTAS, Kind
from forebay.api.admin import Fields, read_fields, suggestion
from forebay.api.decoding import bounded, decode
from forebay.core.errors import InvalidRequest
from forebay.core.money import MoneyError, nanos_of, require_amount, usd_of

R = TypeVar("R", bound=msgspec.Struct)

MADE: Mapping[str, frozenset[str]] = {
    KEYS.name: frozenset({"id", "created_at", "hash", "previous_hash", "previous_expires_at"}),
    QUOTAS.name: frozenset({"id"}),
    PRICES.name: frozenset({"id"}),
}
"""Kind → the fields that the server makes."""
TOLD: frozenset[str] = frozenset(
    {"id", "object", "revision", "updated_at", "created_at", "previous_expires_at", "last_used_at"}
)
"""What a row has beside what is written of it. A body may have these as they were read; they change nothing."""

_WHOLE_BODY = "The request body: "
_FIELD_FIRST = re.compile(r"(?:(\w+): |.*?`(\w+)`)")


def writable(kind: Kind[Any]) -> tuple[str, ...]:
    """The fields of a kind that an operator writes."""
    made = MADE.get(kind.name, frozenset())
    return tuple(field.name for field in msgspec.structs.fields(kind.type) if field.name not in made)


def draft(kind: Kind[R], fields: Fields, made: Mapping[str, Any]) -> R:
    """The resource of these fields, with those that the server has `made`. Raises InvalidRequest."""
    require_writable(kind, fields)
    written = {name: value for name, value in fields.items() if name in writable(kind)}
    _require_amounts(kind, written)
    body = msgspec.json.encode({**written, **made})
    try:
        return _plain(decode(body, kind.type))
    except InvalidRequest as error:
        raise _located(error, kind) from None


def require_writable(kind: Kind[Any], fields: Fields) -> None:
    """Raises InvalidRequest for a field that is none of the kind's."""
    known = writable(kind)
    for name in fields:
        if name in known or name in TOLD:
            continue
        if name == "secret" or name in kind.secrets:
            raise InvalidRequest(f"{name}: the server makes it; leave it out.", param=name)
        raise InvalidRequest(
            bounded(f"{name}: a {kind.noun} has no such field; {suggestion(name, known)}."), param=bounded(name)
        )


def require_id(fields: Fields, id_: str) -> None:
    """Raises InvalidRequest where the fields name another id."""
    if (given := fields.get("id")) is not None and decode(bytes(given), object) != id_:
        raise InvalidRequest(bounded(f"id: it is {id_} here and cannot be chosen; leave it out."), param="id")


def merged(kind: Kind[R], value: R, patch: Fields) -> Fields:
    """The written fields of `value`, changed by a JSON merge patch (RFC 7396): null removes. Raises InvalidRequest."""
    require_writable(kind, patch)
    fields = {name: _raw(getattr(value, name)) for name in writable(kind)}
    return _merged(fields, patch, deep=True)


def _merged(fields: Fields, patch: Fields, *, deep: bool) -> Fields:
    """No resource has objects within objects, so two levels are all."""
    result = dict(fields)
    for name, change in patch.items():
        text = bytes(change).strip()
        if text == b"null":
            result.pop(name, None)
        elif deep and text.startswith(b"{"):
            result[name] = _raw(_merged(_object(result.get(name)), read_fields(text), deep=False))
        else:
            result[name] = change
    return result


def _object(raw: msgspec.Raw | None) -> Fields:
    return read_fields(bytes(raw)) if raw is not None and bytes(raw).startswith(b"{") else {}


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _require_amounts(kind: Kind[Any], written: Fields) -> None:
    """Raises InvalidRequest for a text that is none, which cannot be told any more once it is a number."""
    for field in msgspec.structs.fields(kind.type):
        if Decimal not in (field.type, *get_args(field.type)) or field.name not in written:
            continue
        text = decode(bytes(written[field.name]), object)
        if isinstance(text, str):
            try:
                require_amount(text)
            except MoneyError as error:
                raise InvalidRequest(bounded(f"{field.name}: {error}."), param=field.name) from None


def _plain(value: R) -> R:
    """Each amount in its shortest form, so that equal ones look equal; what is listed twice once."""
    plain: dict[str, Any] = {}
    for name, field in msgspec.structs.asdict(value).items():
        if isinstance(field, Decimal):
            plain[name] = usd_of(nanos_of(field))
        elif isinstance(field, tuple):
            plain[name] = tuple(dict.fromkeys(field))
    return msgspec.structs.replace(value, **plain)


def _located(error: InvalidRequest, kind: Kind[Any]) -> InvalidRequest:
    """A rule that a type itself states names its field in the text alone."""
    rule = error.detail.removeprefix(_WHOLE_BODY)
    if error.param is not None or rule == error.detail:
        return error
    found = _FIELD_FIRST.match(rule)
    field = (found[1] or found[2]) if found else None
    if field is None or field not in writable(kind):
        return error
    return InvalidRequest(rule if rule.startswith(f"{field}: ") else f"{field}: {rule}", param=field)
