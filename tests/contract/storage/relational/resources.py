"""Rows for these tests."""

import hashlib
from decimal import Decimal
from typing import Any

from forebay.administration.kinds import KEYS, KINDS, PRICES, PROMPTS, QUOTAS, TENANTS
from forebay.metering.pricing import Price
from forebay.storage.relational.store import RelationalStore
from forebay.tenancy.resources import MAX_BUDGET_USD, ApiKey, PlatformPrompt, Quota, Tenant, quota_id

ACTOR: Any = {"actor": "tester", "at": 10.0}
SECRETS = ("first-secret", "second-secret")


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def tenant(id_: str = "red", **more: Any) -> Tenant:
    return Tenant(id=id_, **more)


def key(id_: str = "k1", of: str = "red", **more: Any) -> ApiKey:
    return ApiKey(**({"id": id_, "tenant": of, "created_at": 1.5, "hash": hash_of(id_)} | more))


def quota(of: str = "red", alias: str | None = None, of_key: str | None = None, **more: Any) -> Quota:
    return Quota(id=quota_id(of, alias, of_key), tenant=of, alias=alias, key=of_key, **more)


def price(id_: str = "p1", **more: Any) -> Price:
    fields: dict[str, Any] = {
        "id": id_,
        "prompt_usd_per_million": Decimal("0.15"),
        "output_usd_per_million": Decimal("0.60"),
        "effective_from": 0.0,
    }
    return Price(**(fields | more))


FULL: tuple[tuple[Any, Any], ...] = (
    (TENANTS, tenant("red", name="Rot — ü 🚀", default_class="batch", highest_class="standard", canary=True)),
    (TENANTS, tenant("blue", disabled=True, log_retention_days=3650)),
    (
        KEYS,
        key(
            "k1",
            hash=hash_of(SECRETS[0]),
            previous_hash=hash_of(SECRETS[1]),
            previous_expires_at=1e9 + 0.125,
            models=("tiny", "größe"),
            scopes=("usage", "admin"),
            tags={"cost center": "a/ü", "☃": ""},
            expires_at=2e9 + 0.1,
            disabled=True,
        ),
    ),
    (KEYS, key("k2", "blue", models=())),
    (QUOTAS, quota("red", tokens_per_minute=100_000_000, token_burst=0, max_tokens=2**31 - 1)),
    (QUOTAS, quota("red", "größe/v1", requests_per_minute=0, monthly_budget_usd=Decimal(MAX_BUDGET_USD))),
    (QUOTAS, quota("red", of_key="k1", monthly_budget_usd=Decimal("0.000000001"), concurrent_requests=3)),
    (PRICES, price("p1", cached_usd_per_million=Decimal("0.123456789"))),
    (PRICES, price("p2", model="tiny", priority="batch", effective_from=5.25)),
    (PROMPTS, PlatformPrompt(id="greeting", text="Line\n\ttwo 'quoted' \"ü\" \\ 🚀" * 100, models=("tiny",))),
    (PROMPTS, PlatformPrompt(id="all", text="x")),
)
"""One configuration, with every field used at its edges."""


def fill(store: RelationalStore) -> None:
    for kind, value in FULL:
        store.create(kind, value, **ACTOR)


def everything(store: RelationalStore) -> dict[str, Any]:
    """All that a store has, for comparing two."""
    pages = {kind.name: store.page(kind, after=None, limit=1000, where={}) for kind in KINDS}
    used = store.key_use([stored.value.id for stored in pages["keys"]])
    return pages | {
        "audit": store.audit(before=None, limit=1000, where={}),
        "number": store.change_number(),
        "use": used,
    }
