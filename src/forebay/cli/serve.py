"""`forebay serve`: the whole platform in one command."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forebay.cli.announcing import Announcer, Entry
from forebay.cli.listening import base_url, write_port
from forebay.cli.parent import exit_with_parent as watch_parent
from forebay.config.loading import LoadedConfig, load_config, process_environment
from forebay.core.output import outlive_output
from forebay.core.telemetry import configure_logging
from forebay.web.server import Server, ServerHooks, bind, run_in_loop
from forebay.wiring.models import fetch_model, must_be_fetched
from forebay.wiring.platform import Platform, default_api_key, open_platform


def serve(
    *,
    config: Annotated[
        Path | None, Parameter(help="TOML file; ./forebay.toml where it is there, else the defaults.")
    ] = None,
    host: Annotated[str | None, Parameter(help="Address to listen on.")] = None,
    port: Annotated[int | None, Parameter(help="Port to listen on; 0 takes any free one.")] = None,
    port_file: Annotated[Path | None, Parameter(help="File to write the port to once the gateway listens.")] = None,
    exit_with_parent: Annotated[bool, Parameter(help="End at once when standard input ends.", negative="")] = False,
) -> None:
    """Start the gateway and the models behind it; Ctrl-C or SIGTERM lets running requests end and stops them all."""
    if exit_with_parent:
        watch_parent()
    outlive_output()
    loaded = load_config(config, process_environment()).with_gateway(host, port)
    configure_logging(loaded.config.log.level, loaded.config.log.format)
    run_in_loop(_serve(loaded, port_file))


async def _serve(loaded: LoadedConfig, port_file: Path | None) -> None:
    gateway = loaded.config.gateway
    announcer = Announcer(key_is_configured=loaded.config.tenancy.api_key is not None)
    with bind(gateway.host, gateway.port) as bound:
        api_key = default_api_key(loaded)
        async with open_platform(loaded, api_key) as platform:

            def listening(port: int) -> None:
                if port_file is not None:
                    write_port(port_file, port)

            async def drain() -> None:
                announcer.say(
                    f"Stopping: running requests may go on for {gateway.drain_timeout_s:g} s; "
                    "Ctrl-C again ends them at once."
                )
                await platform.drain(gateway.drain_timeout_s)

            server = Server(platform.app, bound, ServerHooks(on_listening=listening, drain=drain))
            entry = Entry(base_url(gateway.host, server.port), api_key, loaded.config.resolved_aliases())
            async with asyncio.TaskGroup() as tasks:
                pools = tasks.create_task(_run_pools(loaded, platform, announcer, entry, server.stop))
                await server.run()
                pools.cancel()
    announcer.raise_start_failure()
    announcer.say("Stopped.")


async def _run_pools(
    loaded: LoadedConfig, platform: Platform, announcer: Announcer, entry: Entry, stop: Callable[[], None]
) -> None:
    """Until cancelled. Calls `stop` where no pool can ever start."""
    named = [pool.model or pool.tokenizer for pool in loaded.config.pools.values()]
    sources = dict.fromkeys(source for source in named if source is not None)
    for source in sources:
        if must_be_fetched(source, loaded.cache_dir):
            with announcer.step(f"fetching the model {source}"):
                await asyncio.to_thread(fetch_model, source, loaded.cache_dir)
    await platform.prompt_counters.load()
    async with platform.fleet.running():
        if not await announcer.follow_start(platform.fleet, entry):
            stop()
        await asyncio.get_running_loop().create_future()
