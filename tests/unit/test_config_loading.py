"""Settings from a file and the environment, and what is said when they are wrong."""

from pathlib import Path

import pytest

from forebay.config.loading import LoadedConfig, load_config
from forebay.config.tree import DEFAULT_MODEL
from forebay.core.errors import ConfigurationError

HERE = {"XDG_DATA_HOME": "/somewhere/data", "XDG_CACHE_HOME": "/somewhere/cache"}


def load(tmp_path: Path, text: str = "", **environment: str) -> LoadedConfig:
    file = tmp_path / "forebay.toml"
    file.write_text(text)
    return load_config(file, HERE | environment)


def problems(tmp_path: Path, text: str = "", **environment: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, text, **environment)
    return refused.value.detail.splitlines()


def test_without_a_file_two_pools_of_the_default_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = load_config(None, HERE)
    assert loaded.file is None
    assert list(loaded.config.pools) == ["assistant-large", "assistant-small"]
    assert {pool.model for pool in loaded.config.pools.values()} == {DEFAULT_MODEL}
    assert loaded.config.pools["assistant-large"].engine_settings.weight_precision == "auto"
    small = loaded.config.pools["assistant-small"].engine_settings
    assert (small.weight_precision, small.kv_precision) == ("int8", "u8")
    assert (small.kv_cache_gb, small.max_model_len) == (0.5, 2048)
    assert loaded.config.resolved_aliases() == {name: name for name in loaded.config.pools}
    assert loaded.data_dir == Path("/somewhere/data/forebay")
    assert loaded.cache_dir == Path("/somewhere/cache/forebay")


def test_which_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, port in (("forebay.toml", 1), ("named.toml", 2), ("variable.toml", 3)):
        (tmp_path / name).write_text(f"gateway.port = {port}")
    monkeypatch.chdir(tmp_path)
    variable = {"FOREBAY_CONFIG": str(tmp_path / "variable.toml")}
    assert load_config(None, HERE).config.gateway.port == 1
    assert load_config(None, HERE | variable).config.gateway.port == 3
    assert load_config(tmp_path / "named.toml", HERE | variable).config.gateway.port == 2


def test_pools_in_the_file_replace_the_default_ones(tmp_path: Path) -> None:
    loaded = load(tmp_path, '[pools.big]\nurl = "http://gpu:8000/v1"\nengine = "vllm"\n[aliases]\nchat = "big"')
    assert list(loaded.config.pools) == ["big"]
    assert loaded.config.resolved_aliases() == {"chat": "big"}


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "gateway.port = 1",
        FOREBAY_GATEWAY__PORT="9000",
        FOREBAY_POOLS__ASSISTANT_LARGE__REPLICAS="3",
        FOREBAY_POOLS__ASSISTANT_LARGE__ENGINE_SETTINGS__KV_CACHE_GB="0.125",
        FOREBAY_POOLS__BIG__URL="http://gpu:8000/v1",
        FOREBAY_TENANCY__API_KEY="12345678901234567890",
        FOREBAY_TENANCY__HIGHEST_CLASS="batch",
        FOREBAY_METERING__RETENTION_DAYS="90",
    )
    assert loaded.config.gateway.port == 9000
    assert loaded.config.pools["assistant-large"].replicas == 3
    assert loaded.config.pools["assistant-large"].engine_settings.kv_cache_gb == 0.125
    assert loaded.config.pools["big"].url == "http://gpu:8000/v1"
    assert loaded.config.tenancy.api_key == "12345678901234567890"
    assert loaded.config.tenancy.highest_class == "batch"
    assert loaded.config.metering.retention_days == 90


def test_secrets_come_by_reference(tmp_path: Path) -> None:
    text = '[pools.big]\nurl = "http://gpu:8000/v1"\napi_key = "${GPU_KEY}"'
    assert load(tmp_path, text, GPU_KEY="s3cret").config.pools["big"].api_key == "s3cret"
    assert problems(tmp_path, text) == [
        f"{tmp_path}/forebay.toml: pools.big.api_key: the environment variable GPU_KEY is not set."
    ]


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    loaded = load(tmp_path, 'data_dir = "data"\ncache_dir = "/cache"\n[pools.own]\nmodel = "model.gguf"')
    assert loaded.data_dir == tmp_path / "data"
    assert loaded.cache_dir == Path("/cache")
    assert loaded.config.pools["own"].model == str(tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gateway.prot = 1", "gateway.prot: unknown setting; did you mean port?"),
        ("zzz = 1", "zzz: unknown setting; known here: data_dir, cache_dir, log,"),
        ('gateway.port = "http"', "gateway.port: expected `int`, got `str`."),
        ("gateway.port = 70000", "gateway.port: expected `int` <= 65535."),
        ("gateway = 1", "gateway: expected a table, got int."),
        ('[pools.a]\nmodel = "m"\nreplicas = 0', "pools.a.replicas: expected `int` >= 1."),
        (
            '[pools.a]\nmodel = "m"\nengine_settings.threds = 1',
            "pools.a.engine_settings.threds: unknown setting; did you",
        ),
        ('[pools."a b"]\nmodel = "m"', "pools.a b: name: expected `str` matching"),
        ("[pools.a]", "pools.a: give either model (run here) or url (run elsewhere)."),
        (
            '[pools.a]\nmodel = "m"\nurl = "http://h/v1"',
            "pools.a: give either model (run here) or url (run elsewhere), not both.",
        ),
        ('[pools.a]\nurl = "gpu:8000"', "pools.a.url: expected `str` matching"),
        ('[pools.a]\nmodel = "m"\napi_key = "k"', "pools.a.api_key: only a pool with a url has one"),
        ('[pools.a]\nmodel = "m"\nengine = "vllm"', "pools.a.engine: only a pool with a url has one"),
        ('[pools.a]\nurl = "http://h/v1"\nengine_settings.threads = 1', "pools.a.engine_settings: only a pool with a"),
        ('[pools.a]\nurl = "http://h/v1"\nreplicas = 2', "pools.a.replicas: a url is one replica"),
        ('[pools.big]\nmodel = "m"\n[aliases]\nx = "bug"', "aliases.x: there is no pool 'bug'; did you mean big?"),
        ("[pools]", "pools: there is none"),
        ('tenancy.api_key = "short"', "tenancy.api_key: expected `str` of length >= 16."),
        ('log.level = "loud"', "log.level: invalid enum value 'loud'."),
        ('tenancy.highest_class = "gold"', "tenancy.highest_class: invalid enum value 'gold'."),
        ('metering.carrier = "nats"', 'metering.nats_url: carrier = "nats" needs it'),
        ('storage.database = "mysql://h/d"', "storage.database: expected `str` matching"),
        ('[pools.a]\nmodel = "m"\ntokenizer = "t"', "pools.a.tokenizer: only a pool with a url has one"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"{tmp_path}/forebay.toml: {expected}")


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    told = problems(tmp_path, "gateway.prot = 1\nlog.lvel = 2", FOREBAY_LOG__LEVEL="loud")
    assert len(told) == 3


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("FOREBAY_GATEWAY__PROT", "1", "unknown setting 'prot'; did you mean port?"),
        ("FOREBAY_GATEWAY__PORT", "many", "expected `int`, got `str`."),
        ("FOREBAY_GATEWAY", "1", "gateway is a table; name a setting below it"),
        ("FOREBAY_GATEWAY__PORT__NUMBER", "1", "port is a value, there is nothing below it."),
    ],
)
def test_what_is_wrong_in_the_environment_is_told_by_its_variable(
    tmp_path: Path, variable: str, text: str, expected: str
) -> None:
    (problem,) = problems(tmp_path, **{variable: text})
    assert problem.startswith(f"environment variable {variable}: {expected}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_config(tmp_path / "nowhere.toml", HERE)
    assert "line 2" in problems(tmp_path, "[gateway]\nport = = 1")[0]
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        load_config(tmp_path / "latin.toml", HERE)


def test_command_line_overrides(tmp_path: Path) -> None:
    loaded = load(tmp_path, "gateway.port = 1")
    assert loaded.with_gateway("0.0.0.0", None).config.gateway.port == 1
    assert loaded.with_gateway(None, 2).config.gateway.port == 2
    with pytest.raises(ConfigurationError, match="--port"):
        loaded.with_gateway(None, 70000)


@pytest.mark.parametrize(
    "url",
    [
        *("http://[::1/v1", "http://a..b/v1", f"http://{'a' * 64}/v1", "http://a:99999/v1", "http://a:0/v1"),
        *("http://a:b/v1", "http://me:secret@host/v1", "http://host/v1\\n"),
    ],
)
def test_a_url_that_cannot_be_called_is_told_at_the_start(tmp_path: Path, url: str) -> None:
    (problem,) = problems(tmp_path, f'[pools.big]\nurl = "{url}"')
    assert "pools.big.url: " in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    "url", ["http://[::1]:8000/v1", "https://example.com./v1", "http://a_b", "http://münchen.de/v1"]
)
def test_every_url_that_can_be_called_is_taken(tmp_path: Path, url: str) -> None:
    assert load(tmp_path, f'[pools.big]\nurl = "{url}"').config.pools["big"].url == url


@pytest.mark.parametrize("key", ["se\ncret", "secret\n-", "secret-\t", "secret\x00", "sécret"])
def test_a_key_that_no_header_can_carry_is_told_by_its_setting(tmp_path: Path, key: str) -> None:
    pool = '[pools.big]\nurl = "http://a/v1"\napi_key = "${KEY}"'
    (problem,) = problems(tmp_path, pool, KEY=key)
    assert "pools.big.api_key: it " in problem
    assert "cret" not in problem
    (problem,) = problems(tmp_path, FOREBAY_TENANCY__API_KEY="-" * 8 + key + "-" * 8)
    assert "tenancy.api_key: " in problem
    assert "cret" not in problem


def test_a_name_does_not_end_in_a_line_end(tmp_path: Path) -> None:
    assert "pools.big" in problems(tmp_path, '[pools."big\\n"]\nurl = "http://a/v1"')[0]
