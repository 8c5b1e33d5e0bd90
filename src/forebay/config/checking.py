"""Whether a plain tree of dicts and values is a tree of settings, and if not, where and why."""

import difflib
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from forebay.config.tree import Config
from forebay.engine.settings import EngineSettings
from forebay.fleet.settings import PoolSettings


def field_types(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """Field → its annotation, constraints included."""
    return {
        name: hint
        for name, hint in get_type_hints(type_, include_extras=True).items()
        if name in type_.__struct_fields__
    }


def table_of(annotation: Any) -> Any:
    """The struct or dict type that an annotation stands for, constraints and None aside; None for a plain value."""
    if get_origin(annotation) is Annotated:
        return table_of(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return next((table for each in get_args(annotation) if (table := table_of(each)) is not None), None)
    if get_origin(annotation) is dict:
        return annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) else None


def shape_problems(value: Any, annotation: Any, path: str) -> Iterator[str]:
    """What keeps `value`, at `path`, from being an `annotation`: unknown keys, wrong types, values out of range."""
    table = table_of(annotation)
    if table is None:
        yield from _value_problems(value, annotation, path)
    elif not isinstance(value, Mapping):
        yield f"{path}: expected a table, got {type(value).__name__}."
    elif get_origin(table) is dict:
        key_type, value_type = get_args(table)
        for key, below in value.items():
            yield from _value_problems(key, key_type, f"{path}.{key}", what="name")
            yield from shape_problems(below, value_type, f"{path}.{key}")
    else:
        known = field_types(table)
        for key, below in value.items():
            below_path = f"{path}.{key}" if path else key
            if key in known:
                yield from shape_problems(below, known[key], below_path)
            else:
                yield f"{below_path}: unknown setting; {suggestion(key, known)}"


def suggestion(key: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(key.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}."


def _value_problems(value: Any, annotation: Any, path: str, what: str = "value") -> Iterator[str]:
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        message = str(error)
        yield f"{path}: {'' if what == 'value' else what + ': '}{message[:1].lower()}{message[1:]}."


def meaning_problems(config: Config) -> Iterator[str]:
    """What is wrong though every single value is right."""
    if not config.pools:
        yield "pools: there is none; add a table [pools.NAME] with a model or a url."
    for name, pool in config.pools.items():
        yield from _pool_problems(f"pools.{name}", pool)
    for alias, pool_name in config.resolved_aliases().items():
        if pool_name not in config.pools:
            yield f"aliases.{alias}: there is no pool {pool_name!r}; {suggestion(pool_name, config.pools)}"
    if config.tenancy.api_key is not None and (problem := _key_problem(config.tenancy.api_key)):
        yield f"tenancy.api_key: {problem}"
    if config.metering.carrier == "nats" and config.metering.nats_url is None:
        yield 'metering.nats_url: carrier = "nats" needs it; give the address of a NATS server.'


def _pool_problems(path: str, pool: PoolSettings) -> Iterator[str]:
    if (pool.model is None) == (pool.url is None):
        both = "" if pool.model is None else ", not both"
        yield f"{path}: give either model (run here) or url (run elsewhere){both}."
    elif pool.url is None:
        elsewhere = {
            "engine": pool.engine,
            "api_key": pool.api_key,
            "upstream_model": pool.upstream_model,
            "tokenizer": pool.tokenizer,
        }
        for field in [key for key, value in elsewhere.items() if value is not None]:
            yield f"{path}.{field}: only a pool with a url has one; remove it, or replace model by url."
    elif problem := _url_problem(pool.url):
        yield f"{path}.url: {problem}"
    elif pool.replicas > 1:
        yield f"{path}.replicas: a url is one replica; remove it."
    elif pool.engine_settings != EngineSettings():
        yield f"{path}.engine_settings: only a pool with a model has them; remove them, or replace url by model."
    if pool.api_key is not None and (problem := _key_problem(pool.api_key)):
        yield f"{path}.api_key: {problem}"


def _key_problem(key: str) -> str | None:
    """Why no HTTP header can carry the key; never the key itself."""
    if key.strip() != key:
        return "it begins or ends with a space or a line end; remove that (a file often ends with a line end)."
    if not (key.isascii() and key.isprintable()):
        return "it has characters that an HTTP header cannot carry; a key is printable ASCII text."
    return None


def _url_problem(url: str) -> str | None:
    """Why a URL that has the form of one cannot be called."""
    if "@" in url.split("/")[2]:
        return "it has a user name or a password; give the server's key as api_key."
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        # A name as it is looked up: labels of 1 to 63 characters, with dots between.
        host.removesuffix(".").encode("idna")
    except ValueError as error:
        return f"not a valid URL ({error})."
    if not host or port == 0 or url.strip() != url:
        return "not a valid URL; write http:// or https://, a host, a port unless it is the usual one, and /v1."
    return None
