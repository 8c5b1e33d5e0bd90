"""All tenants, keys and quotas, in memory: who a key stands for, and what limits a request is under."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from forebay.core.errors import InvalidApiKey
from forebay.core.money import nanos_of
from forebay.tenancy.principal import Principal, classes_up_to
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.resources import ApiKey, Quota, Tenant

NO_LIMITS = Limits()


class Directory:
    """The tenants, keys and quotas of one moment. Pure: it never changes, and the time is passed in."""

    def __init__(
        self, tenants: Iterable[Tenant] = (), keys: Iterable[ApiKey] = (), quotas: Iterable[Quota] = ()
    ) -> None:
        self._tenants = {tenant.id: tenant for tenant in tenants}
        # A hash of 256 random bits is looked up: how long that takes tells nothing about the key.
        self._current: dict[bytes, ApiKey] = {}
        self._previous: dict[bytes, ApiKey] = {}
        self._principals: dict[str, Principal] = {}
        for key in keys:
            self._current[bytes.fromhex(key.hash)] = key
            if key.previous_hash is not None:
                self._previous[bytes.fromhex(key.previous_hash)] = key
            if (tenant := self._tenants.get(key.tenant)) is not None:
                self._principals[key.id] = _principal(key, tenant)
        self._quotas = {(quota.tenant, quota.alias, quota.key): quota for quota in quotas}
        self._accounts = {
            place: Account(quota.id, limits)
            for place, quota in self._quotas.items()
            if (limits := limits_of(quota)) != NO_LIMITS
        }

    @property
    def quotas(self) -> Iterable[Quota]:
        """All of them."""
        return self._quotas.values()

    def tenant(self, id_: str) -> Tenant | None:
        return self._tenants.get(id_)

    def principal_of(self, hash_: bytes, now: float) -> Principal:
        """Whom the key with this SHA-256 stands for at `now` (Unix seconds). Raises InvalidApiKey, which says why."""
        key = self._current.get(hash_)
        if key is None:
            key = self._previous.get(hash_)
            if key is None:
                raise InvalidApiKey(
                    "The API key is not known. Check that it is whole and that it belongs to this server."
                )
            if key.previous_expires_at is None or now >= key.previous_expires_at:
                raise InvalidApiKey(
                    f"The API key was replaced by a new one when the key {key.id} was rotated, and is not accepted any "
                    "more. Use the new one."
                )
        if key.disabled:
            raise InvalidApiKey(f"The API key {key.id} is disabled. Ask the platform's operator to enable it.")
        if key.expires_at is not None and now >= key.expires_at:
            raise InvalidApiKey(f"The API key {key.id} has expired. Ask the platform's operator for a new one.")
        tenant = self._tenants.get(key.tenant)
        if tenant is None or tenant.disabled:
            raise InvalidApiKey(f"The tenant {key.tenant} of the API key {key.id} is disabled. Ask the operator.")
        return self._principals[key.id]

    def accounts(self, principal: Principal, alias: str) -> tuple[Account, ...]:
        """Whose limits a request of `principal` for `alias` is under: the tenant's for that alias, the tenant's, the
        key's. Only those that limit anything that is counted.
        """
        return tuple(
            account for place in _places(principal, alias) if (account := self._accounts.get(place)) is not None
        )

    def max_tokens(self, principal: Principal, alias: str) -> int | None:
        """The most output tokens that such a request may ask for, the least of its quotas' caps; None: no cap."""
        quotas = (self._quotas.get(place) for place in _places(principal, alias))
        caps = [quota.max_tokens for quota in quotas if quota is not None and quota.max_tokens is not None]
        return min(caps, default=None)


def limits_of(quota: Quota) -> Limits:
    """What a quota limits, each burst that it leaves open filled in: a minute's worth."""
    budget = quota.monthly_budget_usd
    return Limits(
        tokens_per_minute=quota.tokens_per_minute,
        token_burst=quota.tokens_per_minute if quota.token_burst is None else quota.token_burst,
        requests_per_minute=quota.requests_per_minute,
        request_burst=quota.requests_per_minute if quota.request_burst is None else quota.request_burst,
        concurrent_requests=quota.concurrent_requests,
        budget_nanos=None if budget is None else nanos_of(budget),
    )


def _places(principal: Principal, alias: str) -> tuple[tuple[str, str | None, str | None], ...]:
    """Where quotas of such a request may lie, the narrowest of the tenant's first."""
    tenant = principal.tenant_id
    return (tenant, alias, None), (tenant, None, None), (tenant, None, principal.key_id)


def _principal(key: ApiKey, tenant: Tenant) -> Principal:
    tags: Mapping[str, str] = MappingProxyType(dict(key.tags))
    return Principal(
        tenant_id=tenant.id,
        key_id=key.id,
        scopes=frozenset(key.scopes),
        default_class=tenant.default_class,
        allowed_classes=classes_up_to(tenant.highest_class),
        models=None if key.models is None else frozenset(key.models),
        tags=tags,
        allow_fallback=tenant.allow_fallback,
        canary=tenant.canary,
        log_content=tenant.log_content,
        replay_outputs=tenant.replay_outputs,
    )
