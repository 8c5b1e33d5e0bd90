"""From what an operator writes to a resource."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from forebay.administration.drafts import draft, merged
from forebay.administration.kinds import KEYS, PRICES, QUOTAS, TENANTS, Kind
from forebay.administration.making import made, price_id
from forebay.api.admin import Fields, read_fields
from forebay.core.errors import InvalidRequest
from forebay.metering.pricing import Price
from forebay.tenancy.keys import key_hash
from forebay.tenancy.resources import ApiKey, Tenant

NOW = 1_793_534_400.0


def fields(**written: Any) -> Fields:
    return read_fields(msgspec.json.encode(written))


def patched(kind: Kind[Any], value: Any, **patch: Any) -> Any:
    return draft(kind, merged(kind, value, fields(**patch)), {"id": value.id})


def test_null_is_the_default_and_what_is_left_out_stays() -> None:
    tenant = Tenant(id="t", name="T", canary=True, log_retention_days=7)
    assert patched(TENANTS, tenant, name=None, log_retention_days=8) == Tenant(
        id="t", canary=True, log_retention_days=8
    )


@pytest.mark.parametrize("patch", [{"tags": {"a": {"b": None}}}, {"tags": []}, {"scopes": {"a": 1}}, {"name": {}}])
def test_patches_of_the_wrong_shape(patch: dict[str, Any]) -> None:
    key = ApiKey(id="k", tenant="t", created_at=NOW, hash="00", tags={"a": "1"})
    with pytest.raises(InvalidRequest) as error:
        draft(KEYS, merged(KEYS, key, fields(**patch)), {"id": "k", "created_at": NOW, "hash": "00"})
    assert error.value.param == next(iter(patch))


def test_what_was_read_may_be_sent_back() -> None:
    row = {"object": "tenant", "id": "t", "name": "T", "revision": 3, "updated_at": NOW}
    assert draft(TENANTS, fields(**row), {"id": "t"}) == Tenant(id="t", name="T")


@pytest.mark.parametrize("amount", ["12.50", 12.5, "1.25e1", Decimal("12.500000000")])
def test_equal_amounts_are_kept_alike(amount: Any) -> None:
    quota, _ = made(QUOTAS, fields(tenant="t", monthly_budget_usd=amount), NOW)
    assert str(quota.monthly_budget_usd) == "12.5"


def test_a_new_key_is_its_secrets_hash() -> None:
    key, secret = made(KEYS, fields(tenant="t"), NOW)
    assert secret is not None
    assert key.hash == key_hash(secret).hex()
    other, _ = made(KEYS, fields(tenant="t"), NOW)
    assert (key.created_at, key.id != other.id, key.hash != other.hash) == (NOW, True, True)


def test_ids_of_quotas_and_prices_say_what_they_are_for() -> None:
    assert made(QUOTAS, fields(tenant="t"), NOW)[0].id == "t"
    assert made(QUOTAS, fields(tenant="t", alias="a/ü b"), NOW)[0].id == "t:model:a/%C3%BC%20b"
    assert made(QUOTAS, fields(tenant="t", key="key-1"), NOW)[0].id == "t:key:key-1"
    money = {"prompt_usd_per_million": 1, "output_usd_per_million": 2}
    assert made(PRICES, fields(**money), NOW)[0].id == "*:*:2026-11-01T12:00:00Z"
    assert (
        made(PRICES, fields(**money, model="a b", effective_from=1.5), NOW)[0].id
        == "a%20b:*:1970-01-01T00:00:01.500000Z"
    )


@pytest.mark.parametrize("time", [-1e300, -1.0, 1e300])
def test_a_time_that_is_none_breaks_no_id(time: float) -> None:
    """That it is refused is the rules' business."""
    money = {"prompt_usd_per_million": Decimal(1), "output_usd_per_million": Decimal(1)}
    assert price_id(Price(id="-", effective_from=time, **money)).startswith("*:*:")


def test_an_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidRequest) as error:
        made(QUOTAS, fields(tenant="t", alias="ü" * 200), NOW)
    assert error.value.param == "alias"


@pytest.mark.parametrize("kind", [QUOTAS, PRICES], ids=lambda kind: kind.name)
@pytest.mark.parametrize("amount", ["1_000", " 1", "\uff11"])
def test_a_text_that_is_no_plain_number_is_no_amount(kind: Kind[Any], amount: str) -> None:
    money = {"prompt_usd_per_million": 1, "output_usd_per_million": 1}
    written: dict[str, Any] = {"tenant": "t"} if kind is QUOTAS else money
    field = "monthly_budget_usd" if kind is QUOTAS else "cached_usd_per_million"
    with pytest.raises(InvalidRequest, match=f"{field}: expected an amount") as error:
        made(kind, fields(**written, **{field: amount}), NOW)
    assert error.value.param == field


def test_what_is_listed_twice_is_kept_once_in_its_order() -> None:
    key, _ = made(KEYS, fields(tenant="t", scopes=["usage", "admin", "usage"], models=["b", "a", "b"]), NOW)
    assert (key.scopes, key.models) == (("usage", "admin"), ("b", "a"))
    key = draft(KEYS, merged(KEYS, key, fields(scopes=["admin", "admin"])), {"id": "k", "created_at": NOW, "hash": "0"})
    assert key.scopes == ("admin",)
