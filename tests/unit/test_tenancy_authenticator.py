"""Who calls, and with which priority."""

import pytest

from forebay.core.errors import InvalidApiKey, InvalidRequest, PermissionDenied, StoreUnavailable
from forebay.tenancy.authenticator import (
    Authenticator,
    operator_key,
    priority_of,
    require_scope,
)
from forebay.tenancy.directory import Directory
from forebay.tenancy.keys import key_hash
from forebay.tenancy.principal import PRIORITY_NAMES, SCOPES, Principal, PriorityName, classes_up_to
from forebay.tenancy.resources import ApiKey, Tenant


def principal(tenant: str, key: str, highest: PriorityName, models: frozenset[str] | None = None) -> Principal:
    return Principal(
        tenant_id=tenant,
        key_id=key,
        scopes=frozenset({"inference", "retrieval", "usage"}),
        default_class="standard",
        allowed_classes=classes_up_to(highest),
        models=models,
    )


def api_key(id_: str, tenant: str, secret: str) -> ApiKey:
    return ApiKey(id=id_, tenant=tenant, created_at=0.0, hash=key_hash(secret).hex())


ALICE = principal("alice", "a", "interactive")
BOB = principal("bob", "b", "batch")
DIRECTORY = Directory(
    [Tenant(id="alice"), Tenant(id="bob", highest_class="batch")],
    [api_key("a", "alice", "key-a"), api_key("b", "bob", "key-b")],
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def authenticator() -> Authenticator:
    return Authenticator(lambda: DIRECTORY, operator_key("key-operator", "default"), Clock())


def test_the_operator_s_key_may_do_everything_where_nothing_is_configured() -> None:
    empty = Authenticator(Directory, operator_key("key-operator", "default"), Clock())
    operator = empty.authenticate("Bearer key-operator")
    assert (operator.tenant_id, operator.key_id) == ("default", "operator")
    assert operator.scopes == set(SCOPES)
    assert operator.allowed_classes == set(PRIORITY_NAMES)
    assert operator.models is None
    with pytest.raises(InvalidApiKey):
        empty.authenticate("Bearer key-a")


def test_the_operator_s_classes_and_opt_ins_are_its_tenant_s_even_a_disabled_one() -> None:
    tenant = Tenant(id="default", default_class="batch", highest_class="standard", canary=True, disabled=True)
    operator = Authenticator(
        lambda: Directory([tenant]), operator_key("key-operator", "default"), Clock()
    ).authenticate("Bearer key-operator")
    assert (operator.default_class, operator.allowed_classes) == ("batch", {"standard", "batch"})
    assert operator.canary
    assert operator.scopes == set(SCOPES)


def test_a_directory_that_is_not_there_yet_is_not_a_wrong_key() -> None:
    def not_there() -> Directory:
        raise StoreUnavailable("not read yet")

    with pytest.raises(StoreUnavailable):
        Authenticator(not_there, None, Clock()).authenticate("Bearer key-a")


def test_the_newest_directory_counts() -> None:
    directories = [DIRECTORY]
    authenticator = Authenticator(lambda: directories[-1], None, Clock())
    authenticator.authenticate("Bearer key-a")
    directories.append(Directory())
    with pytest.raises(InvalidApiKey):
        authenticator.authenticate("Bearer key-a")


def test_last_use_is_told_once() -> None:
    clock = Clock()
    authenticator = Authenticator(lambda: DIRECTORY, None, clock)
    authenticator.authenticate("Bearer key-a")
    clock.now = 1001.5
    authenticator.authenticate("Bearer key-a")
    with pytest.raises(InvalidApiKey):
        authenticator.authenticate("Bearer key-z")
    assert authenticator.take_last_used() == {"a": 1001.5}
    assert authenticator.take_last_used() == {}


def test_a_scope_that_the_key_does_not_have_is_named() -> None:
    require_scope(ALICE, "usage")
    with pytest.raises(PermissionDenied, match=r"'admin'.* has inference, retrieval, usage"):
        require_scope(ALICE, "admin")


@pytest.mark.parametrize(
    ("default", "highest", "expected"),
    [
        ("standard", "interactive", "standard"),
        ("interactive", "interactive", "interactive"),
        ("batch", "standard", "batch"),
        ("interactive", "standard", "standard"),
        ("interactive", "batch", "batch"),
    ],
)
def test_the_default_class_is_the_tenant_s_lowered_to_what_it_may_use(
    default: PriorityName, highest: PriorityName, expected: PriorityName
) -> None:
    tenant = Tenant(id="t", default_class=default, highest_class=highest)
    directory = Directory([tenant], [api_key("k", "t", "key-t")])
    caller = Authenticator(lambda: directory, None, Clock()).authenticate("Bearer key-t")
    assert priority_of(caller, None) == expected
    assert priority_of(caller, None, "auto") == expected


@pytest.mark.parametrize("header", ["Bearer key-b", "bearer key-b", "BEARER  key-b "])
def test_a_known_key_names_its_principal(authenticator: Authenticator, header: str) -> None:
    assert authenticator.authenticate(header) == BOB


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic key-b", "key-b", "Bearer key-c", "Bearer kéy"]
)
def test_anything_else_is_refused(authenticator: Authenticator, header: str | None) -> None:
    with pytest.raises(InvalidApiKey) as refused:
        authenticator.authenticate(header)
    assert "key-" not in refused.value.detail


def test_a_key_may_come_in_another_header_where_one_is_taken(authenticator: Authenticator) -> None:
    assert authenticator.authenticate(None, key="key-b", key_header="x-api-key") == BOB
    assert authenticator.authenticate("Bearer key-a", key="key-b", key_header="x-api-key") == ALICE
    for key in (None, "", " "):
        with pytest.raises(InvalidApiKey, match="or `x-api-key: YOUR_KEY`"):
            authenticator.authenticate(None, key=key, key_header="x-api-key")
    with pytest.raises(InvalidApiKey) as refused:
        authenticator.authenticate(None)
    assert "x-api-key" not in refused.value.detail


@pytest.mark.parametrize(
    ("header", "expected"), [(None, "standard"), ("interactive", "interactive"), (" BATCH ", "batch")]
)
def test_priority(header: str | None, expected: str) -> None:
    assert priority_of(ALICE, header) == expected


def test_an_unknown_priority_is_told_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="interactive, standard, batch"):
        priority_of(ALICE, "soon")


def test_a_class_that_the_key_may_not_use() -> None:
    with pytest.raises(PermissionDenied, match="it may use batch"):
        priority_of(BOB, "interactive")
    assert priority_of(BOB, "batch") == "batch"


@pytest.mark.parametrize(
    ("tier", "expected"),
    [("priority", "interactive"), ("flex", "batch"), ("auto", "standard"), ("default", "standard"), (None, "standard")],
)
def test_a_service_tier_stands_for_a_class(tier: str | None, expected: str) -> None:
    assert priority_of(ALICE, None, tier) == expected
    assert priority_of(ALICE, "batch", tier) == "batch"


def test_a_service_tier_above_what_the_key_may_use() -> None:
    with pytest.raises(PermissionDenied) as refused:
        priority_of(BOB, None, "priority")
    assert refused.value.param == "service_tier"
    assert priority_of(BOB, None, "flex") == "batch"
