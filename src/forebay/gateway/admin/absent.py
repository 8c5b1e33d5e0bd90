"""Whatever else is asked below `/admin/v1`: a 404 that says what is there."""

from litestar import HttpMethod, Response, route
from litestar.handlers import HTTPRouteHandler

from forebay.administration.kinds import KINDS
from forebay.core.errors import RouteNotFound
from forebay.gateway.admin.operator import AnyRequest
from forebay.gateway.admin.resources import ROOT

_METHODS = [HttpMethod.GET, HttpMethod.POST, HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE]
_KNOWN = ", ".join([*(kind.name for kind in KINDS), "audit", "usage"])


def absent_admin_routes() -> list[HTTPRouteHandler]:
    """The one handler."""

    @route([ROOT, f"{ROOT}/{{rest:path}}"], http_method=_METHODS)
    async def absent(request: AnyRequest) -> Response[bytes]:
        raise RouteNotFound(f"There is no {request.scope['path']} here; below {ROOT} there are {_KNOWN}.")

    return [absent]
