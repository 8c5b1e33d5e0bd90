"""What `forebay doctor` says of servers elsewhere."""

import asyncio
from pathlib import Path

import pytest

from forebay.cli.examinations import Finding, servers, shared
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
