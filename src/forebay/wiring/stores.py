"""What the platform keeps: opened together, closed together."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from forebay.config.loading import LoadedConfig
from forebay.core.clock import Clock
from forebay.wiring.configuration import OperatedConfiguration, open_configuration
from forebay.wiring.content import KeptContent, open_content
from forebay.wiring.counters import Counters, open_counters
from forebay.wiring.objects import open_platform_objects
from forebay.wiring.usage import Usage, open_usage


@dataclass(frozen=True, slots=True)
class Stores:
    """All of them."""

    configured: OperatedConfiguration
    usage: Usage
    counters: Counters
    content: KeptContent


@asynccontextmanager
async def open_stores(
    loaded: LoadedConfig, api_key: str, clock: Clock, unix_time: Callable[[], float]
) -> AsyncGenerator[Stores]:
    """Raises ConfigurationError and StoreUnavailable."""
    objects = open_platform_objects(loaded)
    async with (
        open_configuration(loaded, api_key, clock, unix_time) as configured,
        open_usage(loaded, objects, clock, unix_time) as usage,
        open_counters(loaded, clock, unix_time) as counters,
        open_content(loaded, objects, configured.store, unix_time) as content,
    ):
        yield Stores(configured, usage, counters, content)
