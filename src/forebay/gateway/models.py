"""`GET /v1/models` and `GET /v1/models/{id}`."""

from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse
from msgspec import UNSET

from forebay.api.models import Model, ModelList
from forebay.catalog.catalog import CatalogEntry
from forebay.gateway.caller import ANTHROPIC_KEY_HEADER, caller
from forebay.gateway.parts import GatewayParts
from forebay.web.responses import json_response


def model_routes(parts: GatewayParts) -> list[HTTPRouteHandler]:
    """The two handlers."""

    def model(entry: CatalogEntry) -> Model:
        window = parts.pools[entry.pool].max_model_len
        return Model(id=entry.alias, created=parts.created, max_model_len=UNSET if window is None else window)

    @get("/v1/models")
    async def list_models(request: Request[Any, Any, Any]) -> ASGIResponse:
        caller(parts.authenticator, request, ANTHROPIC_KEY_HEADER)
        return json_response(ModelList(data=[model(entry) for entry in parts.catalog.entries()]))

    @get("/v1/models/{model_id:path}")
    async def retrieve_model(request: Request[Any, Any, Any]) -> ASGIResponse:
        caller(parts.authenticator, request, ANTHROPIC_KEY_HEADER)
        # A name may hold slashes, so it is what follows in the path, all of it.
        alias = str(request.path_params["model_id"]).removeprefix("/")
        return json_response(model(parts.catalog.resolve(alias)))

    return [list_models, retrieve_model]
