"""From the `Authorization` header to a `Principal`."""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from forebay.core.errors import InvalidApiKey, InvalidRequest, PermissionDenied
from forebay.tenancy.keys import key_hash
from forebay.tenancy.principal import PRIORITY_NAMES, Principal, PriorityName

PRIORITY_HEADER = "X-Priority"
DEFAULT_PRIORITY: PriorityName = "standard"
TIERS: Mapping[str, PriorityName] = {"priority": "interactive", "flex": "batch"}
"""OpenAI's `service_tier` → the class that it stands for; any other stands for none."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is kept: its hash and whom it stands for."""

    hash: bytes
    principal: Principal


class KeyStore(Protocol):
    """Where keys are looked up; answers from memory."""

    def all_keys(self) -> Iterable[StoredKey]: ...


class FixedKeys:
    """Keys that were known at the start."""

    def __init__(self, keys: Iterable[StoredKey]) -> None:
        self._keys = tuple(keys)

    def all_keys(self) -> Iterable[StoredKey]:
        return self._keys


class Authenticator:
    """Accepts keys of one store."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store

    def authenticate(
        self, authorization: str | None, *, key: str | None = None, key_header: str | None = None
    ) -> Principal:
        """The principal of an `Authorization` header's value, or else of the `key` that came in the header
        `key_header`, where one is taken. Raises InvalidApiKey.
        """
        if authorization:
            scheme, _, key = authorization.partition(" ")
            if scheme.lower() != "bearer" or not key.strip():
                raise InvalidApiKey("The Authorization header is not of the form `Bearer YOUR_KEY`.")
        if not key or not key.strip():
            also = f" or `{key_header}: YOUR_KEY`" if key_header else ""
            raise InvalidApiKey(f"No API key was sent. Send the header `Authorization: Bearer YOUR_KEY`{also}.")
        given = key_hash(key.strip())
        # Every stored hash is compared, each in constant time, so that the time tells nothing about a near miss.
        found = [stored.principal for stored in self._store.all_keys() if hmac.compare_digest(stored.hash, given)]
        if not found:
            raise InvalidApiKey("The API key is not known. Check that it is whole and that it belongs to this server.")
        return found[0]


def priority_of(principal: Principal, header: str | None, service_tier: str | None = None) -> PriorityName:
    """The class that a request asks for by its `X-Priority` header or else by its `service_tier`.

    Raises InvalidRequest, PermissionDenied.
    """
    if header is None:
        tier_s = TIERS.get(service_tier or "")
        return _allowed(principal, tier_s or DEFAULT_PRIORITY, "service_tier" if tier_s else PRIORITY_HEADER)
    asked = header.strip().lower()
    for name in PRIORITY_NAMES:
        if asked == name:
            return _allowed(principal, name, PRIORITY_HEADER)
    raise InvalidRequest(
        f"The header {PRIORITY_HEADER} is {header!r}; it must be one of {', '.join(PRIORITY_NAMES)}.",
        param=PRIORITY_HEADER,
    )


def _allowed(principal: Principal, name: PriorityName, param: str) -> PriorityName:
    if name not in principal.allowed_classes:
        raise PermissionDenied(
            f"This key may not use the priority class {name}; it may use "
            f"{', '.join(sorted(principal.allowed_classes)) or 'none'}.",
            param=param,
        )
    return name
