"""Two gateways that share a Postgres, a Valkey, a folder of objects and two engines; each can be killed and started."""

import json
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.processes import ForebayProcess, forebay, until
from tests.support.scripted_model import write_scripted_model
from tests.support.servers.postgres import postgres_server
from tests.support.servers.valkey import ValkeyServer, valkey_server

OPERATOR_KEY = "operator-key-0123456789"
ENGINE_KEY = "engine-key-0123456789"
ENGINES = ("north", "south")
GATEWAYS = ("one", "two")
LEASE_TTL_S = 3.0
SCRIPT = tuple(f" w{number}" for number in range(40))
ENGINE_FLAGS = {
    "weight-precision": "f32",
    "kv-cache-gb": "0.1",
    "swap-space-gb": "0.05",
    "max-model-len": "1024",
    "log-format": "json",
}

CONFIGURATION = """
data_dir = "{data}"
tenancy.api_key = "{operator_key}"
tenancy.refresh_s = 0.2
tenancy.lease_ttl_s = {lease_ttl_s}
tenancy.gateways = 2
tenancy.without_counters = "{without_counters}"
tenancy.expected_output_tokens = 32
metering.segment_age_s = 2.0
metering.seen_every_s = 0.2
storage.database = "{database}"
storage.counters = "{counters}"
storage.objects = "{objects}"
fleet.probe_interval_s = 0.3
gateway.drain_timeout_s = 5.0
"""
POOL = """
[pools.{name}]
url = "{url}"
engine = "forebay"
api_key = "{key}"
tokenizer = "{model}"
"""


@dataclass
class Restartable:
    """One `forebay` process that may be killed and started again; each start has a folder of its own below
    `directory`.
    """

    directory: Path
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    _starts: int = 0
    _running: ExitStack = field(default_factory=ExitStack)
    process: ForebayProcess | None = None

    def start(self) -> ForebayProcess:
        self._starts += 1
        started = forebay(self.directory / f"start-{self._starts}", self.arguments, self.environment)
        self.process = self._running.enter_context(started)
        return self.process

    def kill(self) -> None:
        """SIGKILL."""
        self.process = None
        self._running.close()

    @property
    def root(self) -> str:
        """Where it listens; nowhere while it does not run."""
        return self.process.root if self.process is not None else "http://127.0.0.1:9"

    def outputs(self) -> Iterator[str]:
        """What each start has printed."""
        for number in range(1, self._starts + 1):
            yield (self.directory / f"start-{number}" / "output").read_text()


@dataclass
class Cluster:
    """All of it, running."""

    directory: Path
    valkey: ValkeyServer
    engines: dict[str, Restartable]
    gateways: dict[str, Restartable]

    @property
    def objects(self) -> Path:
        return self.directory / "objects"

    def usage_roots(self) -> list[Path]:
        """Of the gateways' local logs."""
        return [self.directory / name / "data" / "usage" / "log" for name in GATEWAYS]

    def start_gateway(self, name: str) -> None:
        process = self.gateways[name].start()
        until("its pools are ready", lambda: "Ctrl-C stops it" in process.printed(), process.process, process.output)

    def reconfigure(self, old: str, new: str) -> None:
        """Start the gateways anew with other settings."""
        for name, gateway in self.gateways.items():
            gateway.kill()
            path = self.directory / name / "forebay.toml"
            path.write_text(path.read_text().replace(old, new))
            self.start_gateway(name)

    def admin(self, method: str, path: str, body: Any = None, gateway: str = "one") -> Any:
        """What must succeed, by the operator."""
        with httpx.Client(base_url=self.gateways[gateway].root, timeout=30) as client:
            headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
            answer = client.request(method, f"/admin/v1/{path}", json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def tenant(self, name: str, *quotas: dict[str, Any]) -> str:
        """A new one with its quotas; returns its key once both gateways know it."""
        self.admin("POST", "tenants", {"id": name})
        for quota in quotas:
            self.admin("POST", "quotas", {"tenant": name, **quota})
        secret: str = self.admin("POST", "keys", {"tenant": name})["secret"]
        for gateway in self.gateways.values():
            headers = {"Authorization": f"Bearer {secret}"}
            root = gateway.root
            until("the key is known", lambda: httpx.get(f"{root}/v1/models", headers=headers).status_code == 200)  # noqa: B023 - called at once
        return secret

    def printed(self) -> str:
        """The last lines of all gateways and engines, to explain a failure."""
        parts: list[str] = []
        for name, process in {**self.gateways, **self.engines}.items():
            parts += [f"--- {name}\n{output[-3000:]}" for output in process.outputs()]
        return "\n".join(parts)

    def engine_is_idle(self, name: str) -> bool:
        process = self.engines[name].process
        if process is None:
            return True
        lines = process.get("/metrics").decode().splitlines()
        busy = [line for line in lines if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting"))]
        assert busy
        return all(float(line.rsplit(" ", 1)[1]) == 0 for line in busy)


@contextmanager
def cluster(directory: Path, *, without_counters: str = "refuse") -> Generator[Cluster]:
    """From when all are ready. All of it dies at the end of the block, or with this process."""
    model = write_scripted_model(directory / "model", SCRIPT)
    with ExitStack() as held:
        postgres = held.enter_context(postgres_server())
        valkey = held.enter_context(valkey_server())
        engines = {name: _engine(directory / name, name, model) for name in ENGINES}
        gateways = {name: _gateway(directory / name) for name in GATEWAYS}
        made = Cluster(directory, valkey, engines, gateways)
        for process in (*engines.values(), *gateways.values()):
            held.callback(process.kill)
        for engine in engines.values():
            engine.start()
        database = postgres.new_database()
        for name in GATEWAYS:
            text = CONFIGURATION.format(
                data=(directory / name / "data").as_posix(),
                operator_key=OPERATOR_KEY,
                lease_ttl_s=LEASE_TTL_S,
                without_counters=without_counters,
                database=database,
                counters=valkey.url,
                objects=made.objects.as_posix(),
            )
            for pool, engine in engines.items():
                text += POOL.format(name=pool, url=f"{engine.root}/v1", key=ENGINE_KEY, model=model.as_posix())
            (directory / name).mkdir(parents=True, exist_ok=True)
            (directory / name / "forebay.toml").write_text(text)
            made.start_gateway(name)
        price = {"prompt_usd_per_million": "1.5", "cached_usd_per_million": "0.25", "output_usd_per_million": "3.75"}
        made.admin("POST", "prices", price)
        yield made


def _engine(directory: Path, name: str, model: Path) -> Restartable:
    arguments = ["engine", "serve", "--model", str(model), "--served-model-name", name]
    for flag, value in ENGINE_FLAGS.items():
        arguments += [f"--{flag}", value]
    return Restartable(directory, arguments, {"FOREBAY_REPLICA_API_KEY": ENGINE_KEY})


def _gateway(directory: Path) -> Restartable:
    return Restartable(directory, ["serve", "--config", str(directory / "forebay.toml")])


def json_lines(text: str) -> Iterator[dict[str, Any]]:
    """The lines of a log that are JSON objects; the last one may be torn."""
    for line in text.splitlines():
        if line.startswith("{") and line.endswith("}"):
            yield json.loads(line)
