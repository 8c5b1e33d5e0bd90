"""Messages are in the words of the command line, and keys are kept out of addresses."""

import msgspec
import pytest

from forebay.cli.admin.secrecy import key_id_of, require_no_secret
from forebay.cli.admin.wording import in_our_words, with_choices
from forebay.core.errors import InvalidRequest
from forebay.tenancy.keys import new_key
from forebay.tenancy.principal import PriorityName, Scope
from forebay.tenancy.resources import ResourceId, Tenant
from forebay.tenancy.settings import TenantId


def message(value: object, type_: object) -> str:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, type_)
    return str(raised.value)


def test_a_pattern_is_told_in_words() -> None:
    told = "expected letters, digits, . _ -, at most 64, the first a letter or digit"
    assert in_our_words(message("a b", TenantId)) == told
    assert in_our_words(f"id: {message('a b', TenantId)}.") == f"id: {told}."
    assert in_our_words(message({"id": "a b"}, Tenant)) == f"{told} - at `$.id`"
    assert "printable ASCII characters without spaces" in in_our_words(message("a b", ResourceId))


def test_calls_are_told_as_commands() -> None:
    assert in_our_words("tenant: there is no tenant nosuch; GET /admin/v1/tenants lists them, POST creates one.") == (
        "tenant: there is no tenant nosuch; `forebay tenant list` lists them, `forebay tenant create` creates one."
    )
    assert in_our_words("key: there is no key k; GET /admin/v1/keys lists them.").endswith(
        "`forebay key list` lists them."
    )


def test_choices_are_listed() -> None:
    assert with_choices(message("urgent", PriorityName), PriorityName).endswith(
        "'urgent'; give one of: interactive, standard, batch"
    )
    assert with_choices(message(["x"], tuple[Scope, ...]), tuple[Scope, ...]).endswith("retrieval, usage, admin")
    assert with_choices("expected `int`", PriorityName) == "expected `int`"


def test_a_key_is_no_id() -> None:
    key = new_key()
    for text in (key, f"acme:key:{key}"):
        with pytest.raises(InvalidRequest) as raised:
            require_no_secret(("/admin/v1/quotas", text))
        assert key not in raised.value.detail
    with pytest.raises(InvalidRequest, match="a key itself"):
        key_id_of(key)
    assert key_id_of("key-b80dcc409f030b741dc5204095845207") == "key-b80dcc409f030b741dc5204095845207"
    require_no_secret(("fb-team", "key-b80dcc409f030b741dc5204095845207"))
