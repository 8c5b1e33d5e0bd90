"""One engine's HTTP surface: OpenAI's API with vLLM's extensions."""

from litestar import Litestar

from forebay.engine.service import AsyncEngine
from forebay.modelfiles.model import ModelFiles
from forebay.replica.accounting import usage_route
from forebay.replica.auth import api_key_guards
from forebay.replica.chat import chat_route
from forebay.replica.completions import completion_route
from forebay.replica.info import info_routes
from forebay.replica.service import ReplicaService
from forebay.replica.settings import ReplicaSettings
from forebay.replica.tokenization import tokenization_routes
from forebay.web.app import build_app


def create_app(engine: AsyncEngine, model: ModelFiles, settings: ReplicaSettings) -> Litestar:
    """The application alone; `replica.serve` also listens and drains."""
    return app_of(ReplicaService(engine, model, settings))


def app_of(service: ReplicaService) -> Litestar:
    """The routes of `service`."""
    guards = api_key_guards(service.settings.api_key)
    return build_app(
        [
            chat_route(service, guards),
            completion_route(service, guards),
            usage_route(service, guards),
            *tokenization_routes(service, guards),
            *info_routes(service, guards),
        ]
    )
