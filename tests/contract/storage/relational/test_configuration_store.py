"""What every store of the configuration does."""

import threading
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from forebay.administration.kinds import KEYS, KINDS, PRICES, PROMPTS, QUOTAS, TENANTS
from forebay.core.errors import Conflict, InvalidRequest, PreconditionFailed, ResourceNotFound
from forebay.storage.relational.store import RelationalStore, open_configuration_store
from forebay.tenancy.resources import PlatformPrompt
from tests.contract.storage.relational.resources import (
    ACTOR,
    FULL,
    SECRETS,
    fill,
    hash_of,
    key,
    quota,
    tenant,
)


def ids(store: RelationalStore, kind: Any, **more: Any) -> list[str]:
    asked: dict[str, Any] = {"after": None, "limit": 100, "where": {}} | more
    return [stored.value.id for stored in store.page(kind, **asked)]


def test_a_new_database_is_empty(store: RelationalStore) -> None:
    contents = store.contents()
    assert (contents.change, store.change_number()) == (0, 0)
    assert [*contents.tenants, *contents.keys, *contents.quotas, *contents.prices, *contents.prompts] == []
    assert store.audit(before=None, limit=10, where={}) == []
    assert store.get(TENANTS, "red") is None


def test_every_field_of_every_kind_comes_back(store: RelationalStore) -> None:
    for kind, value in FULL:
        created = store.create(kind, value, **ACTOR)
        assert (created.value, created.revision, created.updated_at) == (value, 1, 10.0)
        assert store.get(kind, value.id) == created
    contents = store.contents()
    assert contents.change == len(FULL)
    for kind in KINDS:
        written = sorted((value for of, value in FULL if of is kind), key=lambda value: value.id)
        assert getattr(contents, kind.name) == written


def test_ids_are_in_the_order_of_their_bytes(store: RelationalStore) -> None:
    written = ["a", "B", "b", "_x", "a-b", "ab", "A1", "1", "~", "é".encode().hex(), "a.b"]
    for id_ in written:
        store.create(PROMPTS, PlatformPrompt(id=id_, text="x"), **ACTOR)
    assert ids(store, PROMPTS) == sorted(written)
    paged: list[str] = []
    while page := ids(store, PROMPTS, after=paged[-1] if paged else None, limit=3):
        paged += page
    assert paged == sorted(written)


def test_pages_can_be_of_some_only(store: RelationalStore) -> None:
    fill(store)
    assert ids(store, KEYS, where={"tenant": "red"}) == ["k1"]
    assert ids(store, QUOTAS, where={"tenant": "red", "key": "k1"}) == ["red:key:k1"]
    assert ids(store, QUOTAS, where={"alias": "größe/v1"}) == ["red:model:gr%C3%B6%C3%9Fe/v1"]
    assert ids(store, PRICES, where={"model": "tiny", "priority": "batch"}) == ["p2"]
    assert ids(store, PRICES, where={"model": "' OR 1=1 --"}) == []
    for kind, field in ((KEYS, "hash"), (TENANTS, "tenant"), (PRICES, "key")):
        with pytest.raises(InvalidRequest, match=field):
            ids(store, kind, where={field: "x"})


def test_an_id_is_taken_once(store: RelationalStore) -> None:
    store.create(TENANTS, tenant("red", name="first"), **ACTOR)
    with pytest.raises(Conflict, match="tenant 'red'"):
        store.create(TENANTS, tenant("red", name="second"), **ACTOR)
    kept = store.get(TENANTS, "red")
    assert kept is not None
    assert (kept.value.name, store.change_number()) == ("first", 1)


def test_what_names_something_that_is_not_there_is_refused(store: RelationalStore) -> None:
    with pytest.raises(ResourceNotFound, match="tenant 'red'"):
        store.create(KEYS, key(), **ACTOR)
    store.create(TENANTS, tenant("red"), **ACTOR)
    store.create(TENANTS, tenant("blue"), **ACTOR)
    store.create(KEYS, key("k1", "red"), **ACTOR)
    with pytest.raises(ResourceNotFound, match="'k2'"):
        store.create(QUOTAS, quota("red", of_key="k2"), **ACTOR)
    with pytest.raises(ResourceNotFound, match="tenant 'blue' has no key 'k1'"):
        store.create(QUOTAS, quota("blue", of_key="k1"), **ACTOR)
    with pytest.raises(ResourceNotFound, match="tenant 'green'"):
        store.replace(KEYS, key("k1", "green"), expected=None, **ACTOR)
    assert store.change_number() == 3


def test_hashes_and_places_are_taken_once_and_no_message_has_a_hash(store: RelationalStore) -> None:
    store.create(TENANTS, tenant(), **ACTOR)
    store.create(KEYS, key("k1", hash=hash_of("same")), **ACTOR)
    with pytest.raises(Conflict) as refused:
        store.create(KEYS, key("k2", hash=hash_of("same")), **ACTOR)
    assert hash_of("same") not in refused.value.detail
    store.create(QUOTAS, quota(), **ACTOR)
    with pytest.raises(Conflict):
        store.create(QUOTAS, msgspec.structs.replace(quota(), id="another"), **ACTOR)
    assert store.change_number() == 3


def test_what_others_name_is_not_deleted(store: RelationalStore) -> None:
    fill(store)
    with pytest.raises(Conflict, match=r"1 key \(k1\) and 3 quotas \(red, red:key:k1, red:model"):
        store.delete(TENANTS, "red", expected=None, **ACTOR)
    with pytest.raises(Conflict, match=r"1 quota \(red:key:k1\)"):
        store.delete(KEYS, "k1", expected=None, **ACTOR)
    with pytest.raises(Conflict):
        store.replace(KEYS, key("k1", "blue"), expected=None, **ACTOR)
    store.note_key_use({"k1": 5.0})
    for quota_id in ids(store, QUOTAS):
        store.delete(QUOTAS, quota_id, expected=None, **ACTOR)
    store.delete(KEYS, "k1", expected=1, **ACTOR)
    store.delete(TENANTS, "red", expected=None, **ACTOR)
    assert store.get(TENANTS, "red") is None
    assert store.key_use(["k1"]) == {}


def test_revisions(store: RelationalStore) -> None:
    store.create(TENANTS, tenant(name="one"), **ACTOR)
    second = store.replace(TENANTS, tenant(name="two"), expected=1, actor="a", at=20.0)
    assert (second.value.name, second.revision, second.updated_at) == ("two", 2, 20.0)
    for attempt in (
        lambda: store.replace(TENANTS, tenant(name="three"), expected=1, **ACTOR),
        lambda: store.delete(TENANTS, "red", expected=1, **ACTOR),
    ):
        with pytest.raises(PreconditionFailed, match="revision 2"):
            attempt()
    same = store.replace(TENANTS, tenant(name="two"), expected=2, actor="a", at=30.0)
    assert same == second
    assert store.change_number() == 2
    for missing in (
        lambda: store.replace(TENANTS, tenant("blue"), expected=None, **ACTOR),
        lambda: store.delete(TENANTS, "blue", expected=None, **ACTOR),
    ):
        with pytest.raises(ResourceNotFound, match="'blue'"):
            missing()


def test_the_audit_log_tells_every_change_and_no_secret(store: RelationalStore) -> None:
    fill(store)
    store.replace(
        KEYS, key("k2", "blue", name="new", hash=hash_of("third")), expected=1, actor="b", at=11.0, action="rotate"
    )
    store.delete(PRICES, "p2", expected=None, actor="c", at=12.0)
    log = store.audit(before=None, limit=100, where={})
    assert [entry.number for entry in log] == list(range(len(FULL) + 2, 0, -1))
    deleted, rotated, *_ = log
    assert (deleted.action, deleted.actor, deleted.kind, deleted.id) == ("delete", "c", "prices", "p2")
    assert deleted.after is None
    assert deleted.before is not None
    assert deleted.before["output_usd_per_million"] == "0.6"
    assert (rotated.action, rotated.at) == ("rotate", 11.0)
    assert rotated.before is not None
    assert rotated.after is not None
    assert (rotated.before["name"], rotated.after["name"]) == ("", "new")
    assert log[-1].before is None
    text = msgspec.json.encode(log).decode()
    for secret in (*SECRETS, "third", "k2"):
        assert hash_of(secret) not in text
    assert [entry.number for entry in store.audit(before=3, limit=1, where={})] == [2]
    assert [entry.action for entry in store.audit(before=None, limit=9, where={"kind": "keys", "id": "k2"})] == [
        "rotate",
        "create",
    ]
    assert [entry.number for entry in store.audit(before=None, limit=9, where={"actor": "c"})] == [len(FULL) + 2]
    with pytest.raises(InvalidRequest, match="after"):
        store.audit(before=None, limit=9, where={"after": "x"})


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 pair"])
def test_a_text_that_cannot_be_kept_is_the_caller_s_fault(store: RelationalStore, text: str) -> None:
    store.create(TENANTS, tenant("red"), **ACTOR)
    for kind, value in (
        (TENANTS, tenant("blue", name=text)),
        (KEYS, key(tags={"a": text})),
        (KEYS, key(tags={text: "a"})),
        (KEYS, key(models=("x", text))),
    ):
        with pytest.raises(InvalidRequest):
            store.create(kind, value, **ACTOR)
    for search in (
        lambda: store.get(TENANTS, text),
        lambda: ids(store, QUOTAS, where={"alias": text}),
        lambda: ids(store, QUOTAS, after=text),
        lambda: store.audit(before=None, limit=1, where={"actor": text}),
    ):
        with suppress(InvalidRequest):
            assert not search()
    assert store.change_number() == 1


def test_four_gateways_that_write_at_once(url: str, store: RelationalStore) -> None:
    """Numbers without gaps, no lost update, each change whole."""
    store.create(TENANTS, tenant("shared", log_retention_days=1), **ACTOR)
    each, writers = 15, 4
    faults: list[BaseException] = []
    together = threading.Barrier(writers)

    def write(writer: int) -> None:
        own = open_configuration_store(url)
        try:
            together.wait(30)
            for number in range(each):
                own.create(TENANTS, tenant(f"t{writer}-{number}"), actor=f"w{writer}", at=1.0)
                with pytest.raises(Conflict):
                    own.create(TENANTS, tenant(f"t{writer}-{number}"), actor=f"w{writer}", at=1.0)
                count_up(own, f"w{writer}")
        except BaseException as fault:
            faults.append(fault)
        finally:
            own.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    log = store.audit(before=None, limit=1000, where={})
    assert [entry.number for entry in log] == list(range(1 + 2 * each * writers, 0, -1))
    shared = store.get(TENANTS, "shared")
    assert shared is not None
    assert (shared.value.log_retention_days, shared.revision) == (1 + each * writers, 1 + each * writers)
    assert len(store.contents().tenants) == 1 + each * writers


def count_up(store: RelationalStore, actor: str) -> None:
    while True:
        there = store.get(TENANTS, "shared")
        assert there is not None
        days = there.value.log_retention_days + 1
        try:
            store.replace(
                TENANTS, tenant("shared", log_retention_days=days), expected=there.revision, actor=actor, at=1.0
            )
        except PreconditionFailed:
            continue
        return


def test_contents_are_of_one_moment(url: str, store: RelationalStore) -> None:
    """Each step makes a tenant and then its key: no snapshot has a key without its tenant, or another number."""
    steps = 25

    def write() -> None:
        own = open_configuration_store(url)
        try:
            for number in range(steps):
                own.create(TENANTS, tenant(f"t{number}"), **ACTOR)
                own.create(KEYS, key(f"k{number}", f"t{number}"), **ACTOR)
        finally:
            own.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while writer.is_alive():
            contents = store.contents()
            assert contents.change == len(contents.tenants) + len(contents.keys)
            assert {row.tenant for row in contents.keys} <= {row.id for row in contents.tenants}
    finally:
        writer.join(60)
    assert store.contents().change == 2 * steps


def test_use_of_keys_never_goes_back_and_is_no_change(store: RelationalStore) -> None:
    fill(store)
    number = store.change_number()
    store.note_key_use({"k1": 100.5, "gone": 7.0})
    store.note_key_use({"k1": 50.0, "k2": 60.0})
    store.note_key_use({})
    assert store.key_use(["k1", "k2", "gone", "never"]) == {"k1": 100.5, "k2": 60.0}
    assert store.key_use([]) == {}
    assert store.change_number() == number
    store.note_key_use({f"no-{index}": 1.0 for index in range(1200)} | {"k1": 200.0})
    assert store.key_use([*(f"no-{index}" for index in range(1200)), "k1"]) == {"k1": 200.0}
