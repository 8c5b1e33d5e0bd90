"""Reads the settings. The only reader of the process's environment."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from forebay.config.checking import meaning_problems, shape_problems
from forebay.config.environment import CONFIG_VARIABLE, overlay
from forebay.config.tree import DEFAULT_POOLS, Config
from forebay.core.errors import ConfigurationError
from forebay.fleet.drivers.local import REPLICA_KEY_VARIABLE
from forebay.gateway.settings import GatewaySettings

DEFAULT_FILE = "forebay.toml"

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The settings, where they came from, and what the process was started with."""

    config: Config
    file: Path | None
    data_dir: Path
    cache_dir: Path
    environment: Mapping[str, str]

    def with_gateway(self, host: str | None, port: int | None) -> "LoadedConfig":
        """The same, but for where the gateway listens. Raises ConfigurationError."""
        given = {name: value for name, value in {"host": host, "port": port}.items() if value is not None}
        problems = list(shape_problems(given, GatewaySettings, ""))
        if problems:
            raise ConfigurationError("\n".join(f"--{problem}" for problem in problems))
        gateway = msgspec.structs.replace(self.config.gateway, **given)
        return replace(self, config=msgspec.structs.replace(self.config, gateway=gateway))


def process_environment() -> Mapping[str, str]:
    return dict(os.environ)


def load_config(file: Path | None, environment: Mapping[str, str]) -> LoadedConfig:
    """The settings of `file`, else of the file that FOREBAY_CONFIG names, else of ./forebay.toml where it is there,
    else the defaults; each overridden by the environment. Raises ConfigurationError, which tells of all that is wrong.
    """
    file = _file(file, environment)
    tree = {} if file is None else _read(file)
    tree.setdefault("pools", deepcopy(DEFAULT_POOLS))
    problems = [f"{file or 'defaults'}: {problem}" for problem in _expand(tree, environment)]
    problems += overlay(tree, environment)
    problems += [f"{file or 'defaults'}: {problem}" for problem in shape_problems(tree, Config, "")]
    if not problems:
        config = msgspec.convert(tree, Config)
        problems += [f"{file or 'environment'}: {problem}" for problem in meaning_problems(config)]
        if not problems:
            return _located(config, file, environment)
    raise ConfigurationError("\n".join(problems))


def default_cache_dir(environment: Mapping[str, str]) -> Path:
    return _user_dir(environment, "XDG_CACHE_HOME", ".cache")


def replica_api_key(environment: Mapping[str, str]) -> str | None:
    """The key that an engine process asks its callers for."""
    return environment.get(REPLICA_KEY_VARIABLE) or None


def _file(named: Path | None, environment: Mapping[str, str]) -> Path | None:
    if named is None and environment.get(CONFIG_VARIABLE):
        named = Path(environment[CONFIG_VARIABLE])
    if named is not None:
        return named
    here = Path(DEFAULT_FILE)
    return here if here.is_file() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read ({error.strerror}). Name an existing TOML file.") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: not valid TOML: {error}") from None


def _expand(tree: dict[str, Any], environment: Mapping[str, str], path: str = "") -> Iterator[str]:
    """Replace each `${NAME}` in a value by that variable; yields those that are not set."""
    for key, value in tree.items():
        below = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from _expand(value, environment, below)
        elif isinstance(value, str):
            missing = [name for name in _REFERENCE.findall(value) if name not in environment]
            yield from (f"{below}: the environment variable {name} is not set." for name in missing)
            tree[key] = _REFERENCE.sub(lambda match: environment.get(match[1], match[0]), value)


def _located(config: Config, file: Path | None, environment: Mapping[str, str]) -> LoadedConfig:
    base = Path.cwd() if file is None else file.resolve().parent
    data = (
        _user_dir(environment, "XDG_DATA_HOME", ".local/share") if config.data_dir is None else base / config.data_dir
    )
    cache = default_cache_dir(environment) if config.cache_dir is None else base / config.cache_dir
    pools = {
        name: msgspec.structs.replace(
            pool, model=_model_source(pool.model, base), tokenizer=_model_source(pool.tokenizer, base)
        )
        for name, pool in config.pools.items()
    }
    config = msgspec.structs.replace(config, pools=pools)
    return LoadedConfig(config, file, data.expanduser(), cache.expanduser(), environment)


def _model_source(source: str | None, base: Path) -> str | None:
    """A path relative to the configuration file made absolute; any other source as it is."""
    if source is None:
        return None
    path = base / Path(source).expanduser()
    return str(path) if path.exists() else source


def _user_dir(environment: Mapping[str, str], variable: str, fallback: str) -> Path:
    return Path(environment.get(variable) or Path.home() / fallback) / "forebay"
