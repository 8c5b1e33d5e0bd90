"""Forebay: `forebay serve` with a tenant, its key, and quotas and prices that count everything and refuse nothing."""

import json
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmarks.engine.peers.ours import this_tree
from benchmarks.engine.ports import free_port
from benchmarks.engine.work import WORK
from benchmarks.gateway.gateways.admin import make_tenant
from benchmarks.gateway.gateways.base import ALIAS, Cores, Target
from benchmarks.gateway.gateways.valkey import valkey_server, valkey_version
from benchmarks.gateway.pinned_server import FOLDER, RunningServer, pinned_server
from benchmarks.gateway.upstream import MODEL

POOL = "noop"
_ADMIN_KEY = "fb-benchmark-operator-key-0000000000000000"


@dataclass(frozen=True, slots=True)
class Features:
    """What of Forebay is on. Each can be left out, to see what it costs."""

    tokenizer: str | None
    quotas: bool


class Forebay:
    """Forebay with its counters in memory, or in Valkey on the core of the load generator."""

    def __init__(self, features: Features, *, valkey: bool) -> None:
        self.name = "forebay-valkey" if valkey else "forebay"
        self._features = features
        self._valkey = valkey

    def prepare(self) -> dict[str, str]:
        features = ["key", "rename", "usage records"]
        if self._features.tokenizer:
            features.append(f"prompts counted by the tokenizer of {self._features.tokenizer}")
        if self._features.quotas:
            features.append(
                "quotas of tenant, alias and key (requests, tokens, concurrency), the tenant's budget, a price"
            )
        counters = f"counters in Valkey {valkey_version()}, on the other core" if self._valkey else "counters in memory"
        return {"version": "this tree", "on": "; ".join([*features, counters])}

    @asynccontextmanager
    async def running(self, upstream_port: int, cores: Cores) -> AsyncGenerator[Target, None]:
        folder = FOLDER / self.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        port = free_port()
        async with AsyncExitStack() as held:
            valkey = await held.enter_async_context(valkey_server(cores.rest)) if self._valkey else None
            config = folder / "forebay.toml"
            config.write_text(self._config(upstream_port, valkey))
            command = [sys.executable, "-m", "forebay", "serve", "--config", str(config), "--port", str(port)]
            server = await held.enter_async_context(
                pinned_server(
                    self.name, command, core=cores.gateway, port=port, health="/health/ready", env=this_tree()
                )
            )
            key = await make_tenant(port, _ADMIN_KEY, ALIAS, POOL) if self._features.quotas else _ADMIN_KEY
            yield Target(server, {"authorization": f"Bearer {key}"}, helper=valkey)

    def _config(self, upstream_port: int, valkey: RunningServer | None) -> str:
        sections: dict[str, dict[str, str]] = {
            "tenancy": {"api_key": _ADMIN_KEY},
            f"pools.{POOL}": {
                "url": f"http://127.0.0.1:{upstream_port}/v1",
                "engine": "vllm",
                "upstream_model": MODEL,
                **({"tokenizer": self._features.tokenizer} if self._features.tokenizer else {}),
            },
            "aliases": {ALIAS: POOL},
        }
        if valkey is not None:
            sections["storage"] = {"counters": f"valkey://127.0.0.1:{valkey.port}"}
        top = {"data_dir": str(FOLDER / self.name / "data"), "cache_dir": str(WORK / "models")}
        return "\n".join(
            [*_lines(top), *(line for name, part in sections.items() for line in ("", f"[{name}]", *_lines(part)))]
        )


def _lines(fields: dict[str, str]) -> list[str]:
    # A JSON text of plain characters is a TOML text too.
    return [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
