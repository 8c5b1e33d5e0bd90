"""From the `Authorization` header to a `Principal`, and what that principal may do."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forebay.core.errors import InvalidApiKey, InvalidRequest, PermissionDenied
from forebay.tenancy.directory import Directory
from forebay.tenancy.keys import key_hash
from forebay.tenancy.principal import PRIORITY_NAMES, SCOPES, Principal, PriorityName, Scope, classes_up_to
from forebay.tenancy.resources import Tenant

PRIORITY_HEADER = "X-Priority"
OPERATOR = "operator"
"""What the operator's own key is called, in the audit log and in usage."""
TIERS: Mapping[str, PriorityName] = {"priority": "interactive", "flex": "batch"}
"""OpenAI's `service_tier` → the class that it stands for; any other stands for none."""


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """The built-in key that may do everything, whatever the database holds: its SHA-256, its id and its tenant."""

    hash: bytes
    id: str
    tenant: str


def operator_key(key: str, tenant: str) -> OperatorKey:
    """`key` as the operator's, which belongs to `tenant`."""
    return OperatorKey(key_hash(key), OPERATOR, tenant)


class Authenticator:
    """Accepts the operator's key and the keys of a directory, and knows when each was last used.

    `directory` gives the newest one; what it raises, callers see. `unix_time` gives seconds.
    """

    def __init__(
        self, directory: Callable[[], Directory], operator: OperatorKey | None, unix_time: Callable[[], float]
    ) -> None:
        self._directory = directory
        self._operator = operator
        self._unix_time = unix_time
        self._last_used: dict[str, float] = {}

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
        now = self._unix_time()
        principal = self._principal_of(key_hash(key.strip()), now)
        self._last_used[principal.key_id] = now
        return principal

    def take_last_used(self) -> Mapping[str, float]:
        """When each key was last used (key id → Unix seconds), of those used since this was last called."""
        taken, self._last_used = self._last_used, {}
        return taken

    def _principal_of(self, hash_: bytes, now: float) -> Principal:
        operator = self._operator
        if operator is None or not hmac.compare_digest(operator.hash, hash_):
            return self._directory().principal_of(hash_, now)
        return operator_principal(operator, self._directory().tenant(operator.tenant))


def operator_principal(operator: OperatorKey, tenant: Tenant | None) -> Principal:
    """All scopes. Classes and opt-ins are those of its tenant; where there is none, all classes and no opt-in.

    A disabled tenant does not lock the operator out, who could not enable it again.
    """
    tenant = tenant or Tenant(id=operator.tenant)
    return Principal(
        tenant_id=tenant.id,
        key_id=operator.id,
        scopes=frozenset(SCOPES),
        default_class=tenant.default_class,
        allowed_classes=classes_up_to(tenant.highest_class),
        allow_fallback=tenant.allow_fallback,
        canary=tenant.canary,
        log_content=tenant.log_content,
        replay_outputs=tenant.replay_outputs,
    )


def require_scope(principal: Principal, scope: Scope) -> None:
    """Raises PermissionDenied where the key is not for that."""
    if scope not in principal.scopes:
        has = ", ".join(name for name in SCOPES if name in principal.scopes) or "none"
        raise PermissionDenied(
            f"This needs a key with the scope {scope!r}; this key has {has}. Ask the platform's operator for one."
        )


def priority_of(principal: Principal, header: str | None, service_tier: str | None = None) -> PriorityName:
    """The class that a request asks for by its `X-Priority` header, or else by its `service_tier`, or else its tenant's
    default, which is lowered to what the key may use.

    Raises InvalidRequest, PermissionDenied.
    """
    if header is None:
        asked_tier = TIERS.get(service_tier or "")
        return _default(principal) if asked_tier is None else _allowed(principal, asked_tier, "service_tier")
    asked = header.strip().lower()
    for name in PRIORITY_NAMES:
        if asked == name:
            return _allowed(principal, name, PRIORITY_HEADER)
    raise InvalidRequest(
        f"The header {PRIORITY_HEADER} is {header!r}; it must be one of {', '.join(PRIORITY_NAMES)}.",
        param=PRIORITY_HEADER,
    )


def _default(principal: Principal) -> PriorityName:
    for name in PRIORITY_NAMES[PRIORITY_NAMES.index(principal.default_class) :]:
        if name in principal.allowed_classes:
            return name
    return _allowed(principal, principal.default_class, PRIORITY_HEADER)


def _allowed(principal: Principal, name: PriorityName, param: str) -> PriorityName:
    if name not in principal.allowed_classes:
        raise PermissionDenied(
            f"This key may not use the priority class {name}; it may use "
            f"{', '.join(sorted(principal.allowed_classes)) or 'none'}.",
            param=param,
        )
    return name
