"""What `forebay doctor` looks at, each with what to do about it."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiohttp
import msgspec

from forebay.cli.listening import base_url
from forebay.config.loading import LoadedConfig
from forebay.core.errors import ConfigurationError, ModelFileError
from forebay.core.units import GIB, format_bytes
from forebay.fleet.replica import Endpoint
from forebay.fleet.supervisor import ProbeError
from forebay.fleet.upstream import UpstreamClient
from forebay.modelfiles.sources import is_wheel_source, parse_wheel_source
from forebay.modelfiles.wheels import is_fetched
from forebay.tenancy.keys import KEY_FILE, load_or_create_key
from forebay.web.server import bind
from forebay.wiring.database import database_file
from forebay.wiring.machine import engine_support
from forebay.wiring.pools import remote_endpoint
from forebay.wiring.shared import shared_problems

Verdict = Literal["ok", "note", "wrong"]

DISK_LOW_BYTES = 2 * GIB
MAX_NAMES = 20
TRIED_BYTES = 65_536
ASKING_TIMEOUT_S = 3.0
MOST_HEALTH_BYTES = 2**20


class _Health(msgspec.Struct):
    """Of a gateway's."""

    status: str
    pools: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `wrong` keeps Forebay from working as configured."""

    verdict: Verdict
    subject: str
    text: str


def machine() -> Iterator[Finding]:
    """This computer, whatever the configuration."""
    yield Finding("ok", "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    support = engine_support()
    yield Finding("ok", "CPU", f"{support.cpu.strip()}, {support.usable_cores} usable cores")
    if memory := total_memory():
        yield Finding("ok", "memory", format_bytes(memory))
    if support.problem:
        yield Finding("wrong", "embedded engine", support.problem)
    else:
        yield Finding("ok", "embedded engine", f"runs here, computing in {support.inference_precision}")


def total_memory() -> int | None:
    """Bytes of RAM, where the system says so."""
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def configuration(loaded: LoadedConfig) -> Iterator[Finding]:
    """Settings, directories, memory."""
    yield Finding("ok", "configuration", f"{loaded.file or 'defaults'}: pools {', '.join(loaded.config.pools)}")
    yield from _data(loaded)
    yield _key(loaded)
    yield _cache(loaded)
    yield from _memory(loaded)


def models(loaded: LoadedConfig) -> Iterator[Finding]:
    """The models that run here, without loading them."""
    for name, pool in loaded.config.pools.items():
        if pool.model is not None:
            yield _model(f"pool {name}", pool.model, loaded.cache_dir)


async def shared(loaded: LoadedConfig) -> list[Finding]:
    """What gateways share, where the configuration names servers for it."""
    return [
        Finding("ok", setting, "can be reached") if problem is None else Finding("wrong", setting, problem)
        async for setting, problem in shared_problems(loaded)
    ]


async def servers(loaded: LoadedConfig) -> list[Finding]:
    """The servers that run elsewhere."""
    findings: list[Finding] = []
    async with UpstreamClient(loaded.config.fleet) as client:
        for name, pool in loaded.config.pools.items():
            if pool.url is None:
                continue
            endpoint = remote_endpoint(name, pool)
            try:
                await client.probe(endpoint)
            except ProbeError as error:
                text = f"{error}. Start the server, or correct pools.{name}.url and pools.{name}.api_key."
                findings.append(Finding("wrong", f"pool {name}", text))
            else:
                findings.append(await _remote_model(client, name, endpoint))
    return findings


async def _remote_model(client: UpstreamClient, name: str, endpoint: Endpoint) -> Finding:
    """Whether a server that answers has the pool's model."""
    subject, answers = f"pool {name}", f"{endpoint.base_url} answers"
    try:
        listed = list(await client.windows(endpoint))
    except ProbeError as error:
        return Finding("note", subject, f"{answers}, but whether it has {endpoint.model!r} cannot be seen: {error}.")
    if endpoint.model in listed:
        return Finding("ok", subject, f"{answers} and lists {endpoint.model!r}")
    more = ", …" if len(listed) > MAX_NAMES else ""
    names = ", ".join(listed[:MAX_NAMES]) + more or "none"
    # vLLM and our own engine serve what they list and nothing else; other servers may know a model by further names.
    verdict: Verdict = "wrong" if endpoint.takes_priority else "note"
    cure = f"Set pools.{name}.upstream_model to a name that it has: {names}."
    return Finding(verdict, subject, f"{answers}, but does not list {endpoint.model!r}. {cure}")


def _data(loaded: LoadedConfig) -> Iterator[Finding]:
    """Where the key, the database and the records of usage are kept."""
    found = _directory("data directory", loaded.data_dir, "data_dir", "keys, usage and logs in")
    yield found
    try:
        file = database_file(loaded.config.storage.database, loaded.data_dir)
    except ConfigurationError as error:
        yield Finding("wrong", "database", error.detail)
        return
    if file is None or (found.verdict == "wrong" and file.parent == loaded.data_dir):
        return
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        yield Finding("wrong", "database", f"{file} is not for this user to read and write. Correct its owner or mode.")
    else:
        yield _directory("database", file.parent, "storage.database", f"{file.name} in")


def _key(loaded: LoadedConfig) -> Finding:
    if loaded.config.tenancy.api_key is not None:
        return Finding("ok", "API key", "the one that is configured")
    if not (loaded.data_dir / KEY_FILE).exists():
        return Finding("ok", "API key", "made at the first start")
    try:
        load_or_create_key(loaded.data_dir)
    except ConfigurationError as error:
        return Finding("wrong", "API key", error.detail)
    return Finding("ok", "API key", f"kept in {loaded.data_dir}")


def _cache(loaded: LoadedConfig) -> Finding:
    return _directory("model cache", loaded.cache_dir, "cache_dir", "in")


def _directory(subject: str, directory: Path, setting: str, text: str) -> Finding:
    """Whether a directory that may not be there yet can be made and written; nothing that is made stays."""
    existing = next(parent for parent in (directory, *directory.absolute().parents) if parent.exists())
    if problem := _writing_problem(existing):
        cure = f"Set {setting} to where this user may write and where there is room."
        return Finding("wrong", subject, f"{existing} cannot be written: {problem}. {cure}")
    free = shutil.disk_usage(existing).free
    verdict: Verdict = "note" if free < DISK_LOW_BYTES else "ok"
    return Finding(verdict, subject, f"{text} {directory}, {format_bytes(free)} free")


def _writing_problem(directory: Path) -> str | None:
    """What keeps a file from being written there, tried with one that is gone then."""
    try:
        with tempfile.TemporaryFile(dir=directory) as tried:
            tried.write(b"\0" * TRIED_BYTES)
            tried.flush()
            os.fsync(tried.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return None


async def port(loaded: LoadedConfig) -> Finding:
    """Where the gateway is to listen, or listens already."""
    found = _port(loaded)
    gateway = loaded.config.gateway
    if found.verdict == "ok" or not await _is_gateway(base_url(gateway.host, gateway.port)):
        return found
    return Finding("ok", "port", f"{gateway.host}:{gateway.port}: a Forebay gateway listens there")


async def _is_gateway(url: str) -> bool:
    """Whether what listens there tells of its health as a gateway does."""
    timeout = aiohttp.ClientTimeout(total=ASKING_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{url}/health") as response:
            told = msgspec.json.decode(await response.content.read(MOST_HEALTH_BYTES), type=_Health)
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return bool(told.status)


def _port(loaded: LoadedConfig) -> Finding:
    gateway = loaded.config.gateway
    try:
        with bind(gateway.host, gateway.port) as bound:
            # Binding alone succeeds beside a listener, as the address may be shared until one listens.
            bound.listen()
    except ConfigurationError as error:
        return Finding("wrong", "port", error.detail)
    except OSError as error:
        return Finding("wrong", "port", f"{gateway.host}:{gateway.port}: {error.strerror}. Stop what listens there.")
    return Finding("ok", "port", f"{gateway.host}:{gateway.port} is free")


def _memory(loaded: LoadedConfig) -> Iterator[Finding]:
    memory = total_memory()
    local = [pool for pool in loaded.config.pools.values() if pool.model is not None]
    wanted = sum(
        pool.replicas * (pool.engine_settings.kv_cache_gb + pool.engine_settings.swap_space_gb) for pool in local
    )
    if memory is not None and wanted * GIB > memory:
        yield Finding(
            "wrong",
            "memory",
            f"the pools' KV caches and swap spaces may take {wanted:g} GiB, and there are {format_bytes(memory)}. "
            "Lower kv_cache_gb, swap_space_gb or replicas.",
        )


def _model(subject: str, source: str, cache_dir: Path) -> Finding:
    if not is_wheel_source(source):
        if Path(source).exists():
            return Finding("ok", subject, source)
        return Finding("wrong", subject, f"there is no {source}. Correct the pool's model.")
    try:
        here = is_fetched(parse_wheel_source(source), cache_dir)
    except ModelFileError as error:
        return Finding("wrong", subject, error.detail)
    return Finding("ok", subject, f"{source}, {'in the cache' if here else 'to be fetched at the first start'}")
