"""What `forebay doctor` says of directories, of the port and of servers elsewhere."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forebay.cli.examinations import Finding, configuration, port, servers, shared
from forebay.config.loading import load_config
from tests.unit.test_fleet_upstream import Script, saying, server, whole

LISTING = whole(b'{"object": "list", "data": [{"id": "there", "max_model_len": 8}, {"id": "too"}]}')


def finding(tmp_path: Path, script: Script, engine: str, model: str) -> Finding:
    async def run() -> Finding:
        async with server(script) as endpoint:
            file = tmp_path / "forebay.toml"
            file.write_text(
                f'[pools.big]\nurl = "{endpoint.base_url}"\nengine = "{engine}"\nupstream_model = "{model}"\n'
            )
            (found,) = await servers(load_config(file, {"HOME": str(tmp_path)}))
            return found

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "engine", "model", "verdict", "said"),
    [
        (LISTING, "vllm", "there", "ok", "lists 'there'"),
        (LISTING, "vllm", "missing", "wrong", "pools.big.upstream_model to a name that it has: there, too."),
        (LISTING, "openai", "missing", "note", "pools.big.upstream_model to a name that it has: there, too."),
        (whole(b"", "404 Not Found"), "openai", "there", "note", "cannot be seen: status 404"),
        (whole(b"[]"), "vllm", "there", "note", "does not list models as OpenAI's API does"),
        (whole(b"", "500 Oh"), "openai", "there", "wrong", "status 500"),
    ],
)
def test_the_model_is_looked_for(
    tmp_path: Path, answer: bytes, engine: str, model: str, verdict: str, said: str
) -> None:
    found = finding(tmp_path, saying(answer), engine, model)
    assert (found.verdict, found.subject) == (verdict, "pool big")
    assert said in found.text


def test_each_server_that_gateways_share_is_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text(
        '[storage]\ndatabase = "postgresql://me:s3cret@127.0.0.1:1/db"\ncounters = "valkey://127.0.0.1:1/0"\n'
    )
    found = asyncio.run(shared(load_config(file, {"HOME": str(tmp_path)})))
    assert [(each.verdict, each.subject) for each in found] == [
        ("wrong", "storage.database"),
        ("wrong", "storage.counters"),
    ]
    assert not any("s3cret" in each.text for each in found)


def test_what_is_kept_here_needs_no_server(tmp_path: Path) -> None:
    assert asyncio.run(shared(load_config(None, {"HOME": str(tmp_path)}))) == []


@asynccontextmanager
async def listening(script: Script) -> AsyncGenerator[int]:
    async with server(script) as endpoint:
        yield urlsplit(endpoint.base_url).port or 0


@pytest.mark.parametrize(
    ("answer", "verdict", "said"),
    [
        (whole(b'{"status": "ready", "pools": {}}'), "ok", "a Forebay gateway listens there"),
        (whole(b'{"status": "ready"}'), "wrong", "another program listens there"),
        (whole(b"<html>"), "wrong", "another program listens there"),
    ],
)
def test_what_listens_on_the_port_is_asked(tmp_path: Path, answer: bytes, verdict: str, said: str) -> None:
    async def run() -> Finding:
        async with listening(saying(answer)) as taken:
            environment = {"HOME": str(tmp_path), "FOREBAY_GATEWAY__PORT": str(taken)}
            return await port(load_config(None, environment))

    found = asyncio.run(run())
    assert (found.verdict, found.subject) == (verdict, "port")
    assert said in found.text


def data_findings(tmp_path: Path, database: str | None = None) -> dict[str, Finding]:
    file = tmp_path / "forebay.toml"
    storage = "" if database is None else f'[storage]\ndatabase = "sqlite:///{database}"\n'
    file.write_text(f'data_dir = "data"\n{storage}')
    return {found.subject: found for found in configuration(load_config(file, {"HOME": str(tmp_path)}))}


def test_directories_are_tried(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    before = data_findings(tmp_path)
    assert (before["data directory"].verdict, before["database"].verdict) == ("ok", "ok")
    assert list(data.iterdir()) == []
    # Nobody, root neither, can write there.
    assert data_findings(tmp_path, "/proc/forebay.db")["database"].verdict == "wrong"
    data.rmdir()
    data.symlink_to("/proc")
    assert data_findings(tmp_path)["data directory"].verdict == "wrong"
