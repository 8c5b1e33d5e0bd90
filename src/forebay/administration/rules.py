"""What must hold between resources, and of times: what no type can say."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forebay.administration.kinds import KEYS, TENANTS
from forebay.administration.store import ConfigurationStore
from forebay.api.admin import suggestion
from forebay.api.decoding import bounded
from forebay.core.errors import Conflict, InvalidRequest
from forebay.metering.pricing import ANY, Price
from forebay.tenancy.principal import PRIORITY_NAMES
from forebay.tenancy.resources import ApiKey, PlatformPrompt, Quota, Tenant

LAST_TIME = 253_402_300_799.0
"""The end of the year 9999 in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Known:
    """The names that resources may refer to: aliases, and models, which are pools."""

    aliases: frozenset[str]
    models: frozenset[str]


def check(value: Any, before: Any, *, store: ConfigurationStore, known: Known, now: float) -> None:
    """Whether `value` may take the place of `before` (None: nothing was there). Raises InvalidRequest, Conflict.

    Names that were there before may stay even where they are not known any more: disabling a key must not fail for it.
    """
    match value:
        case Tenant():
            _check_classes(value)
            if before is None:
                _require_first(value.id, store)
        case ApiKey():
            _check_key(value, before, store, known, now)
        case Quota():
            _check_quota(value, before, store, known)
        case Price():
            _check_time("effective_from", value.effective_from)
            if before is None and value.model != ANY:
                _require_name("model", value.model, known.models | {ANY}, "model")
        case PlatformPrompt():
            _require_aliases(value.models, before, known)
        case _:
            raise AssertionError(f"{type(value)} is of no kind")


def _check_classes(tenant: Tenant) -> None:
    if PRIORITY_NAMES.index(tenant.default_class) < PRIORITY_NAMES.index(tenant.highest_class):
        raise InvalidRequest(
            f"default_class: {tenant.default_class} is above the tenant's highest_class, {tenant.highest_class}; lower "
            "the one or raise the other.",
            param="default_class",
        )


def _require_first(tenant: str, store: ConfigurationStore) -> None:
    """What a tenant leaves goes by its id: its usage, its answers for repeats, its blocks in the prefix cache."""
    # The audit log is read first: whoever is in it and is not there afterwards is gone, and not just being made.
    if store.audit(before=None, limit=1, where={"kind": TENANTS.name, "id": tenant}) and not store.get(TENANTS, tenant):
        raise Conflict(
            f"There was a tenant {tenant} before, and what it used is kept under that id; choose another id.",
            param="id",
        )


def _check_key(key: ApiKey, before: ApiKey | None, store: ConfigurationStore, known: Known, now: float) -> None:
    if before is None:
        _require_tenant(key.tenant, store)
    _require_aliases(key.models, before, known)
    if key.expires_at is None:
        return
    _check_time("expires_at", key.expires_at)
    if before is None and key.expires_at <= now:
        raise InvalidRequest(
            f"expires_at: {key.expires_at:.0f} is past: it is {now:.0f} now (Unix seconds); give a later time.",
            param="expires_at",
        )


def _check_quota(quota: Quota, before: Quota | None, store: ConfigurationStore, known: Known) -> None:
    if before is not None:
        return
    _require_tenant(quota.tenant, store)
    if quota.alias is not None:
        _require_name("alias", quota.alias, known.aliases, "alias")
    if quota.key is None:
        return
    key = store.get(KEYS, quota.key)
    if key is None:
        raise InvalidRequest(f"key: there is no key {quota.key}; GET /admin/v1/keys lists them.", param="key")
    if key.value.tenant != quota.tenant:
        raise InvalidRequest(
            f"key: {quota.key} is a key of the tenant {key.value.tenant}, not of {quota.tenant}.", param="key"
        )


def _require_tenant(tenant: str, store: ConfigurationStore) -> None:
    if store.get(TENANTS, tenant) is None:
        raise InvalidRequest(
            f"tenant: there is no tenant {tenant}; GET /admin/v1/tenants lists them, POST creates one.", param="tenant"
        )


def _require_aliases(models: Iterable[str] | None, before: Any, known: Known) -> None:
    allowed = known.aliases | frozenset((before and before.models) or ())
    for index, alias in enumerate(models or ()):
        _require_name(f"models[{index}]", alias, allowed, "alias")


def _require_name(param: str, name: str, allowed: frozenset[str], what: str) -> None:
    if name not in allowed:
        raise InvalidRequest(bounded(f"{param}: there is no {what} {name}; {suggestion(name, allowed)}."), param=param)


def _check_time(param: str, time: float) -> None:
    if not 0 <= time <= LAST_TIME:
        raise InvalidRequest(
            f"{param}: expected Unix seconds of 0 to {LAST_TIME:.0f} (the year 9999), got {time:g}.", param=param
        )
