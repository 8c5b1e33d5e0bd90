"""One engine process, joined from its parts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forebay.core.clock import SystemClock
from forebay.engine.build import build_engine
from forebay.engine.runtime.capabilities import check_machine, require_paged_attention
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.loading import load
from forebay.replica.serve import serve
from forebay.replica.settings import ReplicaSettings
from forebay.web.server import run_in_loop


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that can be called; `chats` says that it has a chat template."""

    port: int
    name: str
    chats: bool


def run_replica(
    model: str,
    cache_dir: Path,
    engine_settings: EngineSettings,
    settings: ReplicaSettings,
    on_listening: Callable[[ServedModel], None],
) -> None:
    """Load `model` and serve it until SIGTERM or SIGINT; `on_listening` is told when it listens.

    Raises UnsupportedMachine, ModelFileError, ConfigurationError.
    """
    require_paged_attention(check_machine())
    files = load(model, cache_dir)
    name = settings.served_model_name or files.name

    def listening(port: int) -> None:
        on_listening(ServedModel(port, name, files.chat_template is not None))

    engine = build_engine(files, engine_settings, SystemClock())
    try:
        run_in_loop(serve(engine, files, settings, listening))
    finally:
        engine.close()
