"""LiteLLM's proxy, in an environment of its own: one worker, a master key, an alias, no database."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from benchmarks.engine.ports import free_port
from benchmarks.engine.work import python_with
from benchmarks.gateway.gateways.base import ALIAS, Cores, Target
from benchmarks.gateway.pinned_server import FOLDER, pinned_server
from benchmarks.gateway.upstream import MODEL

_PACKAGE = "litellm[proxy]==1.108.7"
"""The newest whose proxy, with all that it requires, the index had as wheels."""
_FASTER = ("httptools>=0.6", "opentelemetry-sdk==1.45.1")
"""With the first its server reads HTTP in C. Without the second, which its own image has, each request tries in vain to
import it."""
_KEY = "sk-benchmark-master-key"
_START_TIMEOUT_S = 180.0
_ENV = {
    # Its advice for production.
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    # Its list of prices is otherwise fetched at start.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


class LiteLlm:
    """As near to Forebay's features as it comes without its database, which its keys, budgets and quotas need."""

    name = "litellm"

    def prepare(self) -> dict[str, str]:
        self._command()
        return {
            "version": _PACKAGE,
            "on": "master key; rename; its own cost and usage figures; one worker (uvicorn, httptools), its settings"
            " for production. Not on, as they need its database: tenants' keys, quotas, budgets, stored usage. Prompts"
            " are not tokenised",
        }

    @asynccontextmanager
    async def running(self, upstream_port: int, cores: Cores) -> AsyncGenerator[Target, None]:
        FOLDER.mkdir(parents=True, exist_ok=True)
        config = FOLDER / "litellm.yaml"
        # JSON is YAML too.
        config.write_text(json.dumps(_config(upstream_port), indent=1))
        port = free_port()
        command = [*self._command(), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        command += ["--num_workers", "1", "--telemetry", "False"]
        async with pinned_server(
            self.name,
            command,
            core=cores.gateway,
            port=port,
            health="/health/liveliness",
            env=_ENV,
            timeout_s=_START_TIMEOUT_S,
        ) as server:
            yield Target(server, {"authorization": f"Bearer {_KEY}"})

    def _command(self) -> list[str]:
        python = python_with("litellm", [_PACKAGE, *_FASTER], timeout_s=1800)
        return [str(python), str(python.with_name("litellm"))]


def _config(upstream_port: int) -> dict[str, object]:
    upstream = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{upstream_port}/v1", "api_key": "none"}
    return {
        "model_list": [{"model_name": ALIAS, "litellm_params": upstream}],
        "litellm_settings": {"telemetry": False, "set_verbose": False},
        "general_settings": {"master_key": _KEY},
    }
