"""`forebay quota …`."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from forebay.administration.kinds import QUOTAS
from forebay.cli.admin.calling import Via
from forebay.cli.admin.resources import (
    delete_resource,
    given_fields,
    list_resources,
    set_resource,
    show_resource,
)
from forebay.cli.admin.secrecy import key_id_of
from forebay.core.errors import InvalidRequest
from forebay.tenancy.resources import quota_id

NONE = "none"
Limit = int | Literal["none"]
Amount = Decimal | Literal["none"]
API_FIELDS = {"concurrent": "concurrent_requests", "budget": "monthly_budget_usd"}

Whose = Annotated[str, Parameter(help="The tenant, or the quota's id as `forebay quota list` shows it.")]
ModelFlag = Annotated[str | None, Parameter(help="The tenant's quota of this alias.")]
KeyFlag = Annotated[str | None, Parameter(help="The quota of this key, by its id.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFlags:
    """What may be limited; `none` takes a limit away."""

    tokens_per_minute: Annotated[Limit | None, Parameter(help="Prompt and output tokens.")] = None
    token_burst: Annotated[Limit | None, Parameter(help="Tokens at once after a pause; none: a minute's.")] = None
    requests_per_minute: Annotated[Limit | None, Parameter(help="Requests.")] = None
    request_burst: Annotated[Limit | None, Parameter(help="Requests at once after a pause; none: a minute's.")] = None
    concurrent: Annotated[Limit | None, Parameter(help="Requests that run at the same time.")] = None
    max_tokens: Annotated[Limit | None, Parameter(help="Output that one request may ask for.")] = None
    budget: Annotated[Amount | None, Parameter(help="US dollars in a calendar month (UTC).")] = None


def set_(
    tenant: Annotated[str, Parameter(help="The tenant.")],
    /,
    *,
    model: ModelFlag = None,
    key: KeyFlag = None,
    limits: QuotaFlags | None = None,
    via: Via | None = None,
) -> int:
    """Set limits of a tenant, of its use of one alias, or of one key; what is not given stays."""
    patch = {
        API_FIELDS.get(name, name): None if value == NONE else value for name, value in given_fields(limits).items()
    }
    identity: dict[str, Any] = {"tenant": tenant}
    if model is not None:
        identity["alias"] = model
    if key is not None:
        identity["key"] = key_id_of(key, "--key")
    return set_resource(via, QUOTAS, _id(tenant, model, key), identity, patch)


def list_(
    *,
    tenant: Annotated[str | None, Parameter(help="Only those of this tenant.")] = None,
    model: Annotated[str | None, Parameter(help="Only those of this alias.")] = None,
    key: Annotated[str | None, Parameter(help="Only that of this key.")] = None,
    via: Via | None = None,
) -> int:
    """List quotas."""
    return list_resources(
        via, QUOTAS, {"tenant": tenant, "alias": model, "key": key if key is None else key_id_of(key, "--key")}
    )


def show(tenant: Whose, /, *, model: ModelFlag = None, key: KeyFlag = None, via: Via | None = None) -> int:
    """Show a quota."""
    return show_resource(via, QUOTAS, _id(tenant, model, key))


def delete(tenant: Whose, /, *, model: ModelFlag = None, key: KeyFlag = None, via: Via | None = None) -> int:
    """Delete a quota: nothing of it is limited any more."""
    return delete_resource(via, QUOTAS, _id(tenant, model, key))


def _id(tenant: str, model: str | None, key: str | None) -> str:
    """No tenant's id has a colon, each longer quota's has."""
    if model is not None and key is not None:
        raise InvalidRequest("--model and --key: a quota is for one of the two; give one.")
    if ":" in tenant and (model is not None or key is not None):
        raise InvalidRequest(f"{tenant} is a quota's id already; leave --model and --key out.")
    return quota_id(tenant, model, None if key is None else key_id_of(key, "--key"))
