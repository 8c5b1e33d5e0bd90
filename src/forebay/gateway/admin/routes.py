"""The Admin API."""

from litestar.handlers import HTTPRouteHandler

from forebay.administration.administration import Administration
from forebay.administration.kinds import KINDS
from forebay.gateway.admin.absent import absent_admin_routes
from forebay.gateway.admin.audit import audit_routes
from forebay.gateway.admin.resources import resource_routes
from forebay.gateway.admin.rotation import rotation_routes
from forebay.tenancy.authenticator import Authenticator


def admin_routes(authenticator: Authenticator, administration: Administration) -> list[HTTPRouteHandler]:
    """Everything below `/admin/v1` but for usage."""
    return [
        *(handler for kind in KINDS for handler in resource_routes(authenticator, administration, kind)),
        *rotation_routes(authenticator, administration),
        *audit_routes(authenticator, administration),
        *absent_admin_routes(),
    ]
