"""A gateway's Admin API as it is: real HTTP, a real database, the snapshot that keys are looked up in."""

import asyncio
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay.administration.administration import Administration
from forebay.administration.snapshots import Snapshots
from forebay.core.clock import SystemClock
from forebay.gateway.admin.routes import admin_routes
from forebay.gateway.usage import usage_routes
from forebay.metering.report import UsageBooks
from forebay.storage.relational.store import RelationalStore, open_configuration_store
from forebay.tenancy.authenticator import Authenticator, operator_key
from forebay.web.app import build_app
from tests.support.running_app import PATIENCE_S, running

OPERATOR = "fb-operator-0123456789"
START = 1_793_534_400.0
"""2026-11-01T12:00:00Z."""
ALIASES = ("assistant", "team/coder")
MODELS = ("chat", "chat-large")


@dataclass
class Wall:
    """Unix time, which moves when it is told to."""

    now: float = START


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def param(self) -> str | None:
        return self.json["error"]["param"]

    @property
    def etag(self) -> str:
        return self.headers["etag"]


@dataclass(frozen=True)
class AdminPlatform:
    host: str
    port: int
    store: RelationalStore
    authenticator: Authenticator
    wall: Wall
    aliases: set[str] = field(default_factory=set)
    forgotten: list[str] = field(default_factory=list)
    """The tenants of which all was to be deleted that is kept elsewhere."""

    def send(self, method: str, path: str, body: Any = None, *, key: str | None = OPERATOR, **headers: str) -> Answer:
        """`body` is JSON, or bytes as they are; a header's name has `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, content, sent)
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read())
        finally:
            connection.close()

    def made(self, kind: str, **fields: Any) -> Any:
        """What was created."""
        answer = self.send("POST", f"/admin/v1/{kind}", fields)
        assert answer.status == 201, answer.body
        return answer.json

    def audit(self, **query: str) -> list[dict[str, Any]]:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return self.send("GET", f"/admin/v1/audit?{asked}").json["data"]

    def key_id_of(self, secret: str) -> str:
        """Raises InvalidApiKey where it is not accepted."""
        return self.authenticator.authenticate(f"Bearer {secret}").key_id


@contextmanager
def admin_platform(directory: Path, books: UsageBooks | None = None) -> Iterator[AdminPlatform]:
    """One over a new SQLite database in `directory`, which tells usage where it is given books."""
    store = open_configuration_store(f"sqlite:///{directory / 'configuration.db'}")
    store.migrate()
    wall, aliases = Wall(), set(ALIASES)
    snapshots = Snapshots(store, SystemClock(), 30.0)
    asyncio.run(snapshots.refresh())
    authenticator = Authenticator(
        lambda: snapshots.current.directory, operator_key(OPERATOR, "default"), lambda: wall.now
    )
    forgotten: list[str] = []

    async def forget(tenant: str) -> None:
        forgotten.append(tenant)

    administration = Administration(
        store,
        known_aliases=lambda: aliases,
        known_models=lambda: MODELS,
        unix_time=lambda: wall.now,
        changed=snapshots.refresh,
        forgotten=forget,
    )
    routes = admin_routes(authenticator, administration)
    if books is not None:
        routes += usage_routes(authenticator, books, lambda: wall.now)
    try:
        with running(build_app(routes)) as app:
            yield AdminPlatform(app.host, app.port, store, authenticator, wall, aliases, forgotten)
    finally:
        administration.close()
        store.close()
