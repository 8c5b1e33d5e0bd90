"""Who a key stands for, and which limits hold."""

from decimal import Decimal

import pytest

from forebay.core.errors import InvalidApiKey
from forebay.tenancy.directory import Directory
from forebay.tenancy.keys import key_hash
from forebay.tenancy.principal import Principal
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.resources import ApiKey, Quota, Tenant, quota_id

NOW = 1000.0
TENANT = Tenant(id="red", default_class="batch", highest_class="standard", allow_fallback=True, replay_outputs=True)


def key(id_: str = "k", *, secret: str = "secret", tenant: str = "red", **more: object) -> ApiKey:
    return ApiKey(id=id_, tenant=tenant, created_at=0.0, hash=key_hash(secret).hex(), **more)  # type: ignore[arg-type]


def quota(alias: str | None = None, of_key: str | None = None, *, tenant: str = "red", **more: object) -> Quota:
    id_ = quota_id(tenant, alias, of_key)
    return Quota(id=id_, tenant=tenant, alias=alias, key=of_key, **more)  # type: ignore[arg-type]


def refusal(directory: Directory, secret: str, now: float = NOW) -> str:
    with pytest.raises(InvalidApiKey) as refused:
        directory.principal_of(key_hash(secret), now)
    assert secret not in refused.value.detail
    assert key_hash(secret).hex() not in refused.value.detail
    return refused.value.detail


def test_a_principal_is_its_key_s_and_its_tenant_s() -> None:
    directory = Directory([TENANT], [key(scopes=("usage",), models=("tiny",), tags={"team": "a"})])
    assert directory.principal_of(key_hash("secret"), NOW) == Principal(
        tenant_id="red",
        key_id="k",
        scopes=frozenset({"usage"}),
        default_class="batch",
        allowed_classes=frozenset({"standard", "batch"}),
        models=frozenset({"tiny"}),
        tags={"team": "a"},
        allow_fallback=True,
        replay_outputs=True,
    )


@pytest.mark.parametrize("opt_in", ["allow_fallback", "canary", "log_content", "replay_outputs"])
def test_each_opt_in_is_the_tenant_s_and_no_other_comes_with_it(opt_in: str) -> None:
    directory = Directory([Tenant(id="red", **{opt_in: True})], [key()])  # type: ignore[arg-type]
    caller = directory.principal_of(key_hash("secret"), NOW)
    told = {name: getattr(caller, name) for name in ("allow_fallback", "canary", "log_content", "replay_outputs")}
    assert [name for name, opted_in in told.items() if opted_in] == [opt_in]


def test_a_refusal_says_why() -> None:
    off = Tenant(id="off", disabled=True)
    directory = Directory(
        [TENANT, off],
        [
            key("expired", secret="s-expired", expires_at=NOW),
            key("disabled", secret="s-disabled", disabled=True),
            key("of-disabled", secret="s-off", tenant="off"),
        ],
    )
    assert "not known" in refusal(directory, "s-never")
    assert "key expired has expired" in refusal(directory, "s-expired")
    assert "key disabled is disabled" in refusal(directory, "s-disabled")
    assert "tenant off" in refusal(directory, "s-off")
    assert directory.principal_of(key_hash("s-expired"), NOW - 0.001).key_id == "expired"


def test_a_rotated_key_is_accepted_until_the_overlap_is_over() -> None:
    rotated = key(secret="s-new", previous_hash=key_hash("s-old").hex(), previous_expires_at=NOW)
    directory = Directory([TENANT], [rotated])
    for secret in ("s-new", "s-old"):
        assert directory.principal_of(key_hash(secret), NOW - 1).key_id == "k"
    assert directory.principal_of(key_hash("s-new"), NOW).key_id == "k"
    assert "rotated" in refusal(directory, "s-old", NOW)


def test_accounts_are_those_that_limit_the_request() -> None:
    directory = Directory(
        [TENANT],
        [key(), key("other", secret="other")],
        [
            quota(requests_per_minute=5),
            quota("tiny", tokens_per_minute=100, token_burst=7),
            quota("large", concurrent_requests=1),
            quota(of_key="k", monthly_budget_usd=Decimal("1.5"), requests_per_minute=0, request_burst=0),
            quota(of_key="other", max_tokens=9),
            quota(tenant="blue", concurrent_requests=0),
        ],
    )
    caller = directory.principal_of(key_hash("secret"), NOW)
    of_tenant = Account("red", Limits(requests_per_minute=5, request_burst=5))
    of_key = Account("red:key:k", Limits(requests_per_minute=0, request_burst=0, budget_nanos=1_500_000_000))
    assert directory.accounts(caller, "tiny") == (
        Account("red:model:tiny", Limits(tokens_per_minute=100, token_burst=7)),
        of_tenant,
        of_key,
    )
    assert directory.accounts(caller, "unheard-of") == (of_tenant, of_key)
    other = directory.principal_of(key_hash("other"), NOW)
    assert directory.accounts(other, "unheard-of") == (of_tenant,)


def test_a_cap_alone_needs_no_account() -> None:
    directory = Directory([TENANT], [key()], [quota(max_tokens=9)])
    caller = directory.principal_of(key_hash("secret"), NOW)
    assert directory.accounts(caller, "tiny") == ()
    assert Directory([TENANT], [key()], [quota("tiny", concurrent_requests=0)]).accounts(caller, "tiny") != ()


def test_the_least_cap_counts() -> None:
    directory = Directory([TENANT], [key()], [quota(max_tokens=50), quota("tiny", max_tokens=20), quota(of_key="k")])
    caller = directory.principal_of(key_hash("secret"), NOW)
    assert directory.max_tokens(caller, "tiny") == 20
    assert directory.max_tokens(caller, "large") == 50
    assert Directory([TENANT], [key()]).max_tokens(caller, "tiny") is None
