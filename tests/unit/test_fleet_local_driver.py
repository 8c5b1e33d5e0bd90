"""Engine processes as children: what they are told, and what is told of those that do not start."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from forebay.engine.settings import EngineSettings
from forebay.fleet.driver import ReplicaStartError
from forebay.fleet.drivers.local import LocalDriver, LocalPool, child_environment, engine_arguments
from forebay.fleet.settings import FleetSettings


def test_a_child_sees_what_it_needs_and_no_secret() -> None:
    parent = {
        **{"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C", "PIP_CERT": "/cert", "https_proxy": "http://proxy"},
        **{"FOREBAY_TENANCY__API_KEY": "s1", "OPENAI_API_KEY": "s2", "AWS_SECRET_ACCESS_KEY": "s3", "GPU_KEY": "s4"},
    }
    child = child_environment(parent, "its-token")
    assert child == {
        **{"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C", "PIP_CERT": "/cert", "https_proxy": "http://proxy"},
        **{"FOREBAY_REPLICA_API_KEY": "its-token", "PYTHONUNBUFFERED": "1"},
    }


def test_engine_settings_become_flags() -> None:
    assert engine_arguments(EngineSettings()) == []
    settings = EngineSettings(weight_precision="int4", kv_cache_gb=0.25, max_model_len=512)
    assert engine_arguments(settings) == [
        *("--weight-precision", "int4", "--kv-cache-gb", "0.25", "--max-model-len", "512")
    ]


def test_a_child_that_cannot_start_says_why(tmp_path: Path) -> None:
    pool = LocalPool("no/such/model.gguf", "ghost", EngineSettings(), tmp_path, tmp_path / "data", dict(os.environ))
    with pytest.raises(ReplicaStartError, match=r"no/such/model\.gguf") as refused:
        asyncio.run(LocalDriver(pool, FleetSettings()).start("ghost-0"))
    assert refused.value.permanent
    assert "no/such/model.gguf" in (tmp_path / "data" / "logs" / "ghost-0.log").read_text()
    assert list((tmp_path / "data" / "run").iterdir()) == []


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(FleetSettings(), start_timeout_s=0.01, stop_timeout_s=5.0)
    pool = LocalPool("no/such/model.gguf", "ghost", EngineSettings(), tmp_path, tmp_path / "data", dict(os.environ))
    with pytest.raises(ReplicaStartError, match="start_timeout_s") as refused:
        asyncio.run(LocalDriver(pool, settings).start("ghost-0"))
    assert not refused.value.permanent


def test_a_data_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    pool = LocalPool("m", "ghost", EngineSettings(), tmp_path, tmp_path / "data", dict(os.environ))
    with pytest.raises(ReplicaStartError, match="ghost-0 cannot be started"):
        asyncio.run(LocalDriver(pool, FleetSettings()).start("ghost-0"))
