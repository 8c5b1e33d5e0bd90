"""What engine processes are told when they are started."""

from forebay.engine.settings import EngineSettings
from forebay.fleet.drivers.local import child_environment, engine_arguments


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
