"""Who calls, and with which priority."""

import pytest

from forebay.core.errors import InvalidApiKey, InvalidRequest, PermissionDenied
from forebay.tenancy.authenticator import Authenticator, FixedKeys, StoredKey, priority_of
from forebay.tenancy.keys import key_hash
from forebay.tenancy.principal import PRIORITY_NAMES, Principal

ALICE = Principal("alice", "a", frozenset(PRIORITY_NAMES))
BOB = Principal("bob", "b", frozenset({"batch"}))


@pytest.fixture
def authenticator() -> Authenticator:
    return Authenticator(FixedKeys([StoredKey(key_hash("key-a"), ALICE), StoredKey(key_hash("key-b"), BOB)]))


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
