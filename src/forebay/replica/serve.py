"""Running one replica."""

from collections.abc import Callable

from forebay.engine.service import AsyncEngine
from forebay.modelfiles.model import ModelFiles
from forebay.replica.app import app_of
from forebay.replica.service import ReplicaService
from forebay.replica.settings import ReplicaSettings
from forebay.web.server import Server, ServerHooks, bind


async def serve(
    engine: AsyncEngine, model: ModelFiles, settings: ReplicaSettings, on_listening: Callable[[int], None]
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends it at once.

    `on_listening` is told the port. Raises ConfigurationError where the address cannot be had. The engine stays its
    maker's to close, which must be safe to repeat: a drain that runs out of time has closed it.
    """
    service = ReplicaService(engine, model, settings)
    server = Server(
        app_of(service),
        bind(settings.host, settings.port),
        ServerHooks(on_listening=on_listening, drain=service.drain),
    )
    await server.run()
