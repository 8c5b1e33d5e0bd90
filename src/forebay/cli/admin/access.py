"""Where a command finds the gateway that it is to operate, and the key with which it may."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from forebay.cli.listening import base_url
from forebay.config.environment import API_KEY_VARIABLE, URL_VARIABLE, given_in, operators_key, operators_url
from forebay.config.loading import LoadedConfig, load_config
from forebay.core.errors import ConfigurationError
from forebay.tenancy.keys import KEY_FILE, load_or_create_key


@dataclass(frozen=True, slots=True)
class GatewayAccess:
    """`url` is the gateway's, without a slash at its end and without `/v1`; `found_by` says where it stood."""

    url: str
    found_by: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GivenAccess:
    """What the command line says of it, which goes before all else."""

    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    config: Path | None = None


def gateway_access(given: GivenAccess, environment: Mapping[str, str]) -> GatewayAccess:
    """The address: as given, else FOREBAY_URL, else that of the local configuration. The key: as given, else
    FOREBAY_API_KEY, else the configured one, else the one kept in the data directory. The configuration is read only
    where one of the two is still missing. Raises ConfigurationError.
    """
    url, found_by = given.url, "--url"
    if url is None:
        url, found_by = operators_url(environment), f"the environment variable {URL_VARIABLE}"
    key, key_found_by = given.api_key, "--api-key"
    if key is None:
        key, key_found_by = operators_key(environment), f"the environment variable {API_KEY_VARIABLE}"
    loaded: LoadedConfig | None = None
    if url is None or key is None:
        loaded = load_config(given.config, environment)
    if url is None:
        assert loaded is not None
        url = base_url(loaded.config.gateway.host, loaded.config.gateway.port)
        found_by = _place_of_address(loaded, environment)
    url = _checked_url(url, found_by)
    if key is None:
        assert loaded is not None
        key, key_found_by = _local_key(loaded, url), "tenancy.api_key"
    return GatewayAccess(url, found_by, _checked_key(key, key_found_by))


def _place_of_address(loaded: LoadedConfig, environment: Mapping[str, str]) -> str:
    place = f"gateway.host and gateway.port of {loaded.file or 'the defaults'}"
    variables = given_in(environment, "gateway.host", "gateway.port")
    return f"{place}, with {' and '.join(variables)} of the environment" if variables else place


def _checked_url(url: str, found_by: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    else:
        usable = usable and not parts.query and not parts.fragment and parts.username is None
    if not usable or not url.isprintable() or " " in url:
        raise ConfigurationError(
            f"{found_by}: expected a gateway's address such as http://127.0.0.1:8000 or https://models.example.com, "
            f"got {url!r}."
        )
    return url.rstrip("/").removesuffix("/v1")


def _local_key(loaded: LoadedConfig, url: str) -> str:
    """Raises ConfigurationError. A key that was made for this machine's own gateway is not shown to another machine."""
    if loaded.config.tenancy.api_key is not None:
        return loaded.config.tenancy.api_key
    file = loaded.data_dir / KEY_FILE
    host = (urlsplit(url).hostname or "").lower()
    if not _is_here(host, loaded.config.gateway.host):
        raise ConfigurationError(
            f"No API key for {url}: the one in {file} belongs to this machine's own gateway. Give a key that has the "
            f"scope admin there with --api-key, or in the environment variable {API_KEY_VARIABLE}."
        )
    if not file.exists():
        raise ConfigurationError(
            f"No API key for {url}: there is none in {file} yet. Run `forebay serve` once, which makes it, or give "
            f"a key that has the scope admin with --api-key or in the environment variable {API_KEY_VARIABLE}."
        )
    return load_or_create_key(loaded.data_dir)


def _is_here(host: str, configured: str) -> bool:
    if host in {"localhost", configured.lower()}:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _checked_key(key: str, found_by: str) -> str:
    """Never tells the key itself."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            f"{found_by}: the API key is empty, or has characters that no HTTP header can carry; a key is printable "
            "ASCII text without spaces."
        )
    return key
