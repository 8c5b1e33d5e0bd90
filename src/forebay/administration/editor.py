"""Changes of the configuration: read what is there, decide, write, and decide anew where another was faster."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from forebay.administration.conditions import ANYHOW, Condition
from forebay.administration.drafts import MADE, draft, merged, require_id
from forebay.administration.kinds import KEYS, PRICES, PROMPTS, QUOTAS, TENANTS, Kind
from forebay.administration.making import made, rotated
from forebay.administration.rules import Known, check
from forebay.administration.store import AuditAction, ConfigurationStore, Stored
from forebay.api.admin import Fields
from forebay.core.errors import Conflict, ForebayError, InvalidRequest, PreconditionFailed, ResourceNotFound
from forebay.metering.pricing import Price

T = TypeVar("T")

ATTEMPTS = 5
"""How often a change that demands no revision is decided anew because others keep changing the same resource."""
PUT_CREATES = frozenset({TENANTS.name, QUOTAS.name, PROMPTS.name})
"""The kinds whose ids an operator can know beforehand."""
FIXED = {
    KEYS.name: ("tenant",),
    QUOTAS.name: ("tenant", "alias", "key"),
    PRICES.name: ("model", "priority", "effective_from"),
}
"""Kind → the fields that say what a resource is, which never change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Who (a key's id) changes something, when (Unix seconds), with which names known, and what must hold before."""

    actor: str
    at: float
    known: Known
    condition: Condition = ANYHOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is there now; the secret where one was made; whether it was not there before."""

    stored: Stored[Any]
    secret: str | None = None
    created: bool = False


class _Overtaken(Exception):
    """Someone else changed the resource between our reading and writing it."""

    def __init__(self, error: ForebayError) -> None:
        super().__init__(error.detail)
        self.error = error


class Editor:
    """Blocking, as its store; keeps nothing itself. All methods raise StoreUnavailable, and then nothing is changed."""

    def __init__(self, store: ConfigurationStore) -> None:
        self._store = store

    def create(self, kind: Kind[Any], fields: Fields, edit: Edit) -> Written:
        """Raises InvalidRequest, Conflict."""
        value, secret = self._new(kind, fields, edit)
        return self._insert(kind, value, secret, edit)

    def put(self, kind: Kind[Any], id_: str, fields: Fields, edit: Edit) -> Written:
        """Raises InvalidRequest, ResourceNotFound, PreconditionFailed, Conflict."""
        require_id(fields, id_)

        def attempt() -> Written:
            current = self._store.get(kind, id_)
            edit.condition.check(kind, id_, current)
            if current is not None:
                return self._replace(kind, current, fields, edit)
            if kind.name not in PUT_CREATES:
                raise absent(kind, id_, f"POST /admin/v1/{kind.name} creates one")
            value, secret = self._new(kind, {**fields, "id": msgspec.Raw(msgspec.json.encode(id_))}, edit)
            try:
                return self._insert(kind, value, secret, edit)
            except Conflict as error:
                raise _Overtaken(error) from error

        return _until_settled(attempt)

    def patch(self, kind: Kind[Any], id_: str, patch: Fields, edit: Edit) -> Written:
        """Raises InvalidRequest, ResourceNotFound, PreconditionFailed, Conflict."""
        require_id(patch, id_)

        def attempt() -> Written:
            current = self._required(kind, id_, edit.condition)
            return self._replace(kind, current, merged(kind, current.value, patch), edit)

        return _until_settled(attempt)

    def delete(self, kind: Kind[Any], id_: str, edit: Edit) -> None:
        """Raises ResourceNotFound, PreconditionFailed, Conflict."""

        def attempt() -> None:
            current = self._required(kind, id_, edit.condition)
            _require_future(current.value, edit.at)
            try:
                self._store.delete(kind, id_, expected=current.revision, actor=edit.actor, at=edit.at)
            except PreconditionFailed as error:
                raise _Overtaken(error) from error

        _until_settled(attempt)

    def rotate(self, id_: str, overlap_s: float, edit: Edit) -> Written:
        """A new secret for a key. Raises ResourceNotFound, PreconditionFailed, Conflict."""

        def attempt() -> Written:
            current = self._required(KEYS, id_, edit.condition)
            key, secret = rotated(current.value, overlap_s, edit.at)
            stored = self._write(KEYS, key, current.revision, edit, "rotate")
            return Written(stored=stored, secret=secret)

        return _until_settled(attempt)

    def _new(self, kind: Kind[Any], fields: Fields, edit: Edit) -> tuple[Any, str | None]:
        value, secret = made(kind, fields, edit.at)
        check(value, None, store=self._store, known=edit.known, now=edit.at)
        return value, secret

    def _insert(self, kind: Kind[Any], value: Any, secret: str | None, edit: Edit) -> Written:
        try:
            stored = self._store.create(kind, value, actor=edit.actor, at=edit.at)
        except ResourceNotFound as error:
            # What it names was there when it was checked. That path, though, is there.
            raise InvalidRequest(error.detail, param=error.param) from None
        return Written(stored=stored, secret=secret, created=True)

    def _required(self, kind: Kind[Any], id_: str, condition: Condition) -> Stored[Any]:
        current = self._store.get(kind, id_)
        if current is None:
            raise absent(kind, id_)
        condition.check(kind, id_, current)
        return current

    def _replace(self, kind: Kind[Any], current: Stored[Any], fields: Fields, edit: Edit) -> Written:
        value = _successor(kind, current.value, fields)
        if value == current.value:
            return Written(stored=current)
        _require_future(current.value, edit.at)
        check(value, current.value, store=self._store, known=edit.known, now=edit.at)
        return Written(stored=self._write(kind, value, current.revision, edit, "replace"))

    def _write(self, kind: Kind[Any], value: Any, revision: int, edit: Edit, action: AuditAction) -> Stored[Any]:
        try:
            return self._store.replace(kind, value, expected=revision, actor=edit.actor, at=edit.at, action=action)
        except (PreconditionFailed, ResourceNotFound) as error:
            raise _Overtaken(error) from error


def _until_settled(attempt: Callable[[], T]) -> T:
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except _Overtaken:
            continue
    try:
        return attempt()
    except _Overtaken as overtaken:
        raise overtaken.error from overtaken


def _successor(kind: Kind[Any], current: Any, fields: Fields) -> Any:
    """What the fields make of `current`: what the server made stays. Raises InvalidRequest."""
    kept = {name: getattr(current, name) for name in MADE.get(kind.name, frozenset({"id"}))}
    if kind is PRICES:
        fields = {"effective_from": msgspec.Raw(msgspec.json.encode(current.effective_from)), **fields}
    value = draft(kind, fields, kept)
    for name in FIXED.get(kind.name, ()):
        if getattr(value, name) != getattr(current, name):
            raise InvalidRequest(
                f"{name}: it says which {kind.noun} this is and cannot be changed; create another {kind.noun}.",
                param=name,
            )
    return value


def _require_future(value: Any, now: float) -> None:
    """Raises Conflict for a price that has begun: what was paid by it must stay known."""
    if isinstance(value, Price) and value.effective_from <= now:
        raise Conflict(
            f"The price {value.id} has begun and stays as it is; POST /admin/v1/prices adds a new one, which takes its "
            "place from its effective_from on."
        )


def absent(kind: Kind[Any], id_: str, hint: str | None = None) -> ResourceNotFound:
    """The error for an id that nothing has; the `hint` is to list what there is, where none is given."""
    hint = hint or f"GET /admin/v1/{kind.name} lists them"
    return ResourceNotFound(f"There is no {kind.noun} {id_[:200]}; {hint}.", param="id")
