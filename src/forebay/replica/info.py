"""What a replica tells of itself: `GET /v1/models`, `/health`, `/metrics`."""

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp

from forebay.api.models import Model, ModelList
from forebay.replica.auth import Guard
from forebay.replica.metrics import MEDIA_TYPE
from forebay.replica.service import ReplicaService
from forebay.web.responses import json_response


def info_routes(service: ReplicaService, guards: list[Guard]) -> list[HTTPRouteHandler]:
    """All of them; whoever watches needs no key for /health and /metrics."""
    served = Model(
        id=service.model_name,
        created=service.created,
        root=service.root_name,
        max_model_len=service.max_model_len,
    )

    @get("/v1/models", guards=guards)
    async def list_models() -> ASGIApp:
        return json_response(ModelList(data=[served]))

    @get("/v1/models/{name:path}", guards=guards)
    async def get_model(name: FromPath[str]) -> ASGIApp:
        service.require_model(name.removeprefix("/"))
        return json_response(served)

    @get("/health")
    async def health() -> ASGIApp:
        status = service.status
        return json_response({"status": status}, status=200 if status == "ready" else 503)

    @get("/metrics")
    async def metrics() -> ASGIApp:
        return ASGIResponse(body=service.metrics.text(), headers={"Content-Type": MEDIA_TYPE})

    return [list_models, get_model, health, metrics]
