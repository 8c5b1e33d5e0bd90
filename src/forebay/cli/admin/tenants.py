"""`forebay tenant …`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from forebay.administration.kinds import TENANTS
from forebay.cli.admin.calling import Via
from forebay.cli.admin.resources import (
    change_resource,
    create_resource,
    delete_resource,
    given_fields,
    list_resources,
    show_resource,
)
from forebay.tenancy.principal import PriorityName

TenantArgument = Annotated[str, Parameter(help="The tenant's id.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFlags:
    """What may be said of a tenant; what is not said stays, or is the API's default."""

    name: Annotated[str | None, Parameter(help="What people call it.")] = None
    default_class: Annotated[PriorityName | None, Parameter(help="Priority class of requests that name none.")] = None
    highest_class: Annotated[PriorityName | None, Parameter(help="The highest class that it may ask for.")] = None
    allow_fallback: Annotated[bool | None, Parameter(help="May be served by an alias's fallback.")] = None
    canary: Annotated[bool | None, Parameter(help="Takes part in canaries of new model versions.")] = None
    log_content: Annotated[bool | None, Parameter(help="Prompts and outputs are kept.")] = None
    replay_outputs: Annotated[
        bool | None, Parameter(help="Outputs are kept for repeats with the same Idempotency-Key.")
    ] = None
    log_retention_days: Annotated[int | None, Parameter(help="How long what is kept is kept.")] = None
    disabled: Annotated[bool | None, Parameter(help="All its keys are refused.")] = None


def create(tenant: TenantArgument, /, *, fields: TenantFlags | None = None, via: Via | None = None) -> int:
    """Create a tenant."""
    return create_resource(via, TENANTS, {"id": tenant, **given_fields(fields)})


def list_(*, via: Via | None = None) -> int:
    """List all tenants."""
    return list_resources(via, TENANTS)


def show(tenant: TenantArgument, /, *, via: Via | None = None) -> int:
    """Show a tenant."""
    return show_resource(via, TENANTS, tenant)


def set_(tenant: TenantArgument, /, *, fields: TenantFlags | None = None, via: Via | None = None) -> int:
    """Change what is given of a tenant."""
    return change_resource(via, TENANTS, tenant, given_fields(fields))


def delete(tenant: TenantArgument, /, *, via: Via | None = None) -> int:
    """Delete a tenant that has no keys and no quotas."""
    return delete_resource(via, TENANTS, tenant)
