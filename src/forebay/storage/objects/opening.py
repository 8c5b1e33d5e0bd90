"""Where objects are kept, by address."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from forebay.core.errors import ConfigurationError
from forebay.storage.objects.store import LocalFolder, ObjectStore

SCHEMES = frozenset({"s3", "gs", "az", "azure"})


def open_objects(location: str | Path, options: Mapping[str, str], *, timeout_s: float = 30.0) -> ObjectStore:
    """The store at `location`: a local folder, which is made, or `s3://bucket/prefix`, `gs://…`, `az://…`.

    `options` are those of the storage, as obstore names them: `endpoint`, `region`, `access_key_id`,
    `secret_access_key`, …; for what they leave out, the storage's usual environment counts. Plain HTTP is used where
    the `endpoint` says so. Nothing is called yet. Raises ConfigurationError.
    """
    scheme = urlsplit(location).scheme if isinstance(location, str) else ""
    if scheme in SCHEMES:
        return _remote(str(location), options, timeout_s)
    if "://" in str(location):
        raise ConfigurationError(
            f"Cannot keep objects in {location}: give a folder, or an address that begins with "
            + ", ".join(f"{scheme}://" for scheme in sorted(SCHEMES))
            + "."
        )
    root = Path(location).absolute()
    try:
        return LocalFolder(LocalStore(root, mkdir=True), root)
    except (BaseError, OSError) as error:
        raise ConfigurationError(f"Cannot keep objects in the folder {root}: {error}") from error


def _remote(location: str, options: Mapping[str, str], timeout_s: float) -> ObjectStore:
    plain = options.get("endpoint", "").startswith("http://")
    # The libraries' types tell the options of each storage apart; here they come from the configuration.
    checked: Any = dict(options)
    try:
        backend = from_url(
            location,
            config=checked,
            client_options={"allow_http": plain, "timeout": timedelta(seconds=timeout_s)},
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=timeout_s)},
        )
    except (BaseError, ValueError, TypeError) as error:
        raise ConfigurationError(f"Cannot keep objects in {location}: {error}") from error
    return ObjectStore(backend, location)
