"""The platform's HTTP application."""

from collections.abc import Sequence

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from forebay.gateway.absent import absent_routes
from forebay.gateway.inference import inference_routes
from forebay.gateway.models import model_routes
from forebay.gateway.operations import operation_routes
from forebay.gateway.parts import GatewayParts
from forebay.web.app import build_app


def create_app(parts: GatewayParts, further: Sequence[HTTPRouteHandler] = ()) -> Litestar:
    """All routes over `parts`, and `further` ones."""
    return build_app(
        [*inference_routes(parts), *model_routes(parts), *operation_routes(parts), *absent_routes(), *further]
    )
