"""`POST /admin/v1/keys/{id}/rotate`."""

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.administration.administration import Administration
from forebay.administration.kinds import KEYS
from forebay.api.admin import read_rotation
from forebay.core.errors import MethodNotAllowed
from forebay.gateway.admin.conditions import condition_of
from forebay.gateway.admin.operator import AnyRequest, json_body, operator
from forebay.gateway.admin.resources import ROOT, answered, id_in_path
from forebay.tenancy.authenticator import Authenticator

ENDING = "/rotate"
_KEY_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"


def rotation_routes(authenticator: Authenticator, administration: Administration) -> list[HTTPRouteHandler]:
    """The one handler. An id takes all of the path, so it also gets what is posted to a key itself."""

    @post(f"{ROOT}/{KEYS.name}/{{id:path}}", status_code=200)
    async def rotate(request: AnyRequest) -> ASGIResponse:
        actor = operator(authenticator, request)
        if not str(request.scope["path"]).endswith(ENDING):
            raise MethodNotAllowed(
                f"{request.scope['path']} does not take POST; it takes {_KEY_METHODS}. A new secret comes from POST "
                f"{request.scope['path']}{ENDING}.",
                headers={"Allow": _KEY_METHODS},
            )
        condition, id_ = condition_of(request), id_in_path(request, KEYS, ENDING)
        overlap_s = read_rotation(await json_body(request)).overlap_s
        return answered(KEYS, await administration.rotate(id_, overlap_s, actor=actor, condition=condition))

    return [rotate]
