"""Engine processes as children: those that start and what is told of those that do not."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest

from forebay.engine.settings import EngineSettings
from forebay.fleet.driver import ReplicaStartError
from forebay.fleet.drivers.local import LocalDriver, LocalPool
from forebay.fleet.settings import FleetSettings
from forebay.fleet.upstream import UpstreamClient
from tests.support.tiny_chat_model import write_tiny_chat_model


def test_a_child_that_cannot_start_says_why(tmp_path: Path) -> None:
    pool = LocalPool("no/such/model.gguf", "ghost", EngineSettings(), tmp_path, tmp_path / "data", dict(os.environ))
    with pytest.raises(ReplicaStartError, match=r"ended while it started \(exit code 78\)\.$") as refused:
        asyncio.run(LocalDriver(pool, FleetSettings()).start("ghost-0"))
    assert refused.value.permanent
    assert refused.value.log is not None
    assert "no/such/model.gguf" in "\n".join(refused.value.log.lines)
    assert refused.value.log.file == tmp_path / "data" / "logs" / "ghost-0.log"
    assert "no/such/model.gguf" in (tmp_path / "data" / "logs" / "ghost-0.log").read_text()


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(FleetSettings(), start_timeout_s=0.01, stop_timeout_s=5.0)
    pool = LocalPool("no/such/model.gguf", "ghost", EngineSettings(), tmp_path, tmp_path / "data", dict(os.environ))
    with pytest.raises(ReplicaStartError, match="start_timeout_s") as refused:
        asyncio.run(LocalDriver(pool, settings).start("ghost-0"))
    assert not refused.value.permanent


def test_one_whose_log_cannot_be_kept_starts_all_the_same(tmp_path: Path) -> None:
    """A disk without room, say: here the log's directory cannot be made, and nothing can be written."""
    (tmp_path / "data").touch()
    model = write_tiny_chat_model(tmp_path / "tiny")
    engine = EngineSettings(kv_cache_gb=0.05, swap_space_gb=0.0, threads=1)
    pool = LocalPool(str(model), "tiny", engine, tmp_path, tmp_path / "data", dict(os.environ))

    async def life() -> None:
        replica = await LocalDriver(pool, FleetSettings()).start("tiny-0")
        try:
            async with UpstreamClient(FleetSettings()) as client:
                await client.probe(replica.endpoint)
        finally:
            await replica.stop()

    asyncio.run(life())


def test_a_process_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    pool = LocalPool("m", "ghost", EngineSettings(), tmp_path, tmp_path / "data", dict(os.environ))
    with pytest.raises(ReplicaStartError, match="ghost-0 cannot be started"):
        asyncio.run(LocalDriver(pool, FleetSettings()).start("ghost-0"))
