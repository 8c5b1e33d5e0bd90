"""A platform and its operator, who makes tenants, keys, quotas and prices over the Admin API."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import openai

from tests.acceptance.processes import ForebayProcess, forebay, until
from tests.support.scripted_model import write_scripted_model

OPERATOR_KEY = "operator-key-0123456789"
WORDS = tuple(f" w{number}" for number in range(50))
BRIEF = WORDS[:12]
"""What the model `brief` says: one token each, and the end."""
BRIEF_TOKENS = len(BRIEF) + 1
BRIEF_PRICE = {"prompt_usd_per_million": "1", "cached_usd_per_million": "0.25", "output_usd_per_million": "2"}
ENDLESS_BATCH_PRICE = {
    "prompt_usd_per_million": "0.5",
    "cached_usd_per_million": "0.125",
    "output_usd_per_million": "2",
}
"""Other classes of `endless` cost nothing."""
ENDLESS_WINDOW = 60_000
"""Tokens: it takes a good while until `endless` must stop."""

CONFIGURATION = """
data_dir = "data"
log.level = "info"
tenancy.api_key = "{operator_key}"
tenancy.refresh_s = 0.5
tenancy.lease_ttl_s = 3.0
fleet.probe_interval_s = 0.5
{more}

[pools.brief]
model = "{models}/brief"
engine_settings = {{ weight_precision = "f32", kv_cache_gb = 0.1, swap_space_gb = 0.1 }}

[pools.endless]
model = "{models}/endless"
engine_settings = {{ weight_precision = "f32", kv_cache_gb = 0.1, swap_space_gb = 0.1 }}
"""


def write_models(folder: Path) -> None:
    """`brief` says `BRIEF`, `endless` goes on for as long as it may."""
    write_scripted_model(folder / "brief", BRIEF)
    write_scripted_model(folder / "endless", WORDS, endless=True, context_window=ENDLESS_WINDOW)


def write_configuration(directory: Path, models: Path, more: str = "") -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "forebay.toml").write_text(
        CONFIGURATION.format(operator_key=OPERATOR_KEY, models=models.as_posix(), more=more)
    )


@dataclass(frozen=True)
class Operated:
    """A platform that runs, and what its operator does."""

    process: ForebayProcess
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    def http(self, key: str = OPERATOR_KEY) -> httpx.Client:
        return httpx.Client(base_url=self.process.root, headers={"Authorization": f"Bearer {key}"}, timeout=60)

    def client(self, key: str, max_retries: int = 0) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.process.url, api_key=key, max_retries=max_retries, timeout=60)

    def admin(self, method: str, path: str, body: Any = None) -> httpx.Response:
        with self.http() as client:
            return client.request(method, f"/admin/v1/{path}", json=body)

    def done(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """What must succeed."""
        answer = self.admin(method, path, body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else {}

    def tenant(self, **fields: Any) -> str:
        """A new tenant's id."""
        id_ = f"tenant-{next(self._names)}"
        self.done("POST", "tenants", {"id": id_, **fields})
        return id_

    def key(self, tenant: str, **fields: Any) -> dict[str, Any]:
        """A new key, with its `secret`."""
        return self.done("POST", "keys", {"tenant": tenant, **fields})

    def quota(self, tenant: str, **limits: Any) -> str:
        """Set one; its id."""
        return self.done("POST", "quotas", {"tenant": tenant, **limits})["id"]

    def customer(self, **limits: Any) -> openai.OpenAI:
        """The client of a new tenant under these limits."""
        tenant = self.tenant()
        if limits:
            self.quota(tenant, **limits)
        return self.client(self.key(tenant)["secret"])

    def set_prices(self) -> None:
        """Those above: prices hold for all tenants, so that a test must not make its own."""
        self.done("POST", "prices", {"model": "brief", **BRIEF_PRICE})
        self.done("POST", "prices", {"model": "endless", "priority": "batch", **ENDLESS_BATCH_PRICE})

    def usage(self, key: str, *group_by: str) -> list[dict[str, Any]]:
        """What the tenant of that key has used since yesterday, in groups."""
        since = time.time() - 86400
        with self.http(key) as client:
            answer = client.get("/v1/usage", params={"from": f"{since:.0f}", "group_by": ",".join(group_by)})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def requests(self, key: str) -> int:
        """How many usage records the tenant of that key has."""
        return sum(row["requests"] for row in self.usage(key, "status"))

    def arrived(self, what: Mapping[str, str]) -> float:
        """Requests that the gateway has counted under these labels."""
        labels = {f'{name}="{value}"' for name, value in what.items()}
        lines = self.process.get("/metrics").decode().splitlines()
        counted = [line for line in lines if line.startswith("forebay_requests_total{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in counted if all(label in line for label in labels))


@contextmanager
def operated(directory: Path) -> Iterator[Operated]:
    """`forebay serve` in a directory that has its configuration, from when its pools are ready."""
    (directory / "port").unlink(missing_ok=True)
    with forebay(directory, ["serve"]) as process:
        ready(process)
        yield Operated(process)


def ready(process: ForebayProcess) -> None:
    """Wait for its pools."""
    until("its pools are ready", lambda: "Ctrl-C stops it" in process.printed(), process.process, process.output)


def chat(text: str = "Hi", model: str = "brief", **more: Any) -> dict[str, Any]:
    """What the client is to ask."""
    return {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, **more}
