"""Keys: shown once, rotated with an overlap, kept as hashes; and the audit log, which has none of their secrets."""

from pathlib import Path

import pytest

from forebay.core.errors import InvalidApiKey
from forebay.tenancy.keys import key_hash
from tests.contract.gateway_admin.platform import START, AdminPlatform


def test_a_secret_is_shown_once_and_works_at_once(platform: AdminPlatform, tenant: str, tmp_path: Path) -> None:
    made = platform.made("keys", tenant=tenant, name="indexer", tags={"team": "a"}, expires_at=START + 60)
    secret, id_ = made.pop("secret"), made["id"]
    assert secret.startswith("fb-")
    assert id_.startswith("key-")
    assert made == {
        "object": "key",
        "id": id_,
        "tenant": tenant,
        "name": "indexer",
        "scopes": ["inference", "retrieval", "usage"],
        "models": None,
        "tags": {"team": "a"},
        "expires_at": START + 60,
        "disabled": False,
        "created_at": START,
        "previous_expires_at": None,
        "last_used_at": None,
        "revision": 1,
        "updated_at": START,
    }
    assert platform.key_id_of(secret) == id_
    told = [platform.send("GET", f"/admin/v1/{path}").body for path in ("keys", f"keys/{id_}", "audit")]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for text in (*told, kept):
        assert secret.encode() not in text
    for text in told:
        assert key_hash(secret).hex().encode() not in text
        assert b"hash" not in text


def test_rotation_overlaps(platform: AdminPlatform, tenant: str) -> None:
    made = platform.made("keys", tenant=tenant)
    path = f"/admin/v1/keys/{made['id']}"
    rotated = platform.send("POST", f"{path}/rotate", {"overlap_s": 60}, If_Match='"1"')
    assert (rotated.status, rotated.etag, rotated.json["previous_expires_at"]) == (200, '"2"', START + 60)
    second = rotated.json["secret"]
    assert platform.key_id_of(second) == platform.key_id_of(made["secret"]) == made["id"]
    platform.wall.now = START + 60
    with pytest.raises(InvalidApiKey, match="rotated"):
        platform.key_id_of(made["secret"])
    assert platform.key_id_of(second) == made["id"]

    third = platform.send("POST", f"{path}/rotate")
    assert third.json["previous_expires_at"] == START + 60 + 3600
    assert platform.key_id_of(second) == made["id"]
    fourth = platform.send("POST", f"{path}/rotate", {"overlap_s": 0}).json
    assert fourth["previous_expires_at"] is None
    for old in (second, third.json["secret"]):
        with pytest.raises(InvalidApiKey):
            platform.key_id_of(old)
    assert platform.key_id_of(fourth["secret"]) == made["id"]
    assert [entry["action"] for entry in platform.audit(id=made["id"])] == ["rotate", "rotate", "rotate", "create"]


def test_a_change_keeps_the_secrets(platform: AdminPlatform, tenant: str) -> None:
    made = platform.made("keys", tenant=tenant)
    path = f"/admin/v1/keys/{made['id']}"
    new = platform.send("POST", f"{path}/rotate", {"overlap_s": 60}).json
    row = platform.send("PUT", path, {"tenant": tenant, "name": "x"}).json
    assert (row["name"], row["created_at"], row["previous_expires_at"]) == ("x", START, START + 60)
    assert platform.key_id_of(new["secret"]) == platform.key_id_of(made["secret"]) == made["id"]


def test_rotations_that_are_refused(platform: AdminPlatform, tenant: str) -> None:
    id_ = platform.made("keys", tenant=tenant, expires_at=START + 10)["id"]
    path = f"/admin/v1/keys/{id_}/rotate"
    for body, param in (
        ({"overlap_s": -1}, "overlap_s"),
        ({"overlap_s": 30 * 86400 + 1}, "overlap_s"),
        ({"overlap": 1}, "overlap"),
    ):
        answer = platform.send("POST", path, body)
        assert (answer.status, answer.param) == (400, param)
    assert platform.send("POST", path, {}, If_Match='"7"').status == 412
    assert platform.send("POST", "/admin/v1/keys/key-9/rotate", {}).status == 404
    platform.wall.now = START + 10
    assert platform.send("POST", path, {}).status == 409


def test_disabling_counts_at_once(platform: AdminPlatform, tenant: str) -> None:
    made = platform.made("keys", tenant=tenant)
    platform.send("PATCH", f"/admin/v1/keys/{made['id']}", {"disabled": True})
    with pytest.raises(InvalidApiKey, match="disabled"):
        platform.key_id_of(made["secret"])


def test_when_a_key_was_last_used(platform: AdminPlatform, tenant: str) -> None:
    id_ = platform.made("keys", tenant=tenant)["id"]
    platform.store.note_key_use({id_: START + 5})
    assert platform.send("GET", f"/admin/v1/keys/{id_}").json["last_used_at"] == START + 5
    assert platform.send("GET", "/admin/v1/keys").json["data"][0]["last_used_at"] == START + 5
    assert platform.send("PATCH", f"/admin/v1/keys/{id_}", {"name": "x"}).json["last_used_at"] == START + 5


def test_tags_are_merged(platform: AdminPlatform, tenant: str) -> None:
    id_ = platform.made("keys", tenant=tenant, tags={"a": "1", "b": "2"})["id"]
    patched = platform.send("PATCH", f"/admin/v1/keys/{id_}", {"tags": {"a": None, "c": "3"}})
    assert patched.json["tags"] == {"b": "2", "c": "3"}
    assert platform.send("PATCH", f"/admin/v1/keys/{id_}", {"tags": None}).json["tags"] == {}


def test_the_audit_log(platform: AdminPlatform, tenant: str) -> None:
    key = platform.made("keys", tenant=tenant, scopes=["admin"])
    changed = platform.send("PATCH", f"/admin/v1/tenants/{tenant}", {"name": "N"}, key=key["secret"])
    assert changed.status == 200
    page = platform.send("GET", "/admin/v1/audit?limit=2").json
    assert (page["object"], page["has_more"], page["last_id"]) == ("list", True, 2)
    newest, created = page["data"]
    assert (newest["object"], newest["number"], newest["action"]) == ("audit_entry", 3, "replace")
    assert (newest["actor"], newest["at"], newest["kind"], newest["id"]) == (key["id"], START, "tenants", tenant)
    assert (newest["before"]["name"], newest["after"]["name"]) == ("", "N")
    assert (created["action"], created["kind"], created["before"]) == ("create", "keys", None)
    older = platform.send("GET", "/admin/v1/audit?before=2").json
    assert ([entry["number"] for entry in older["data"]], older["has_more"]) == ([1], False)
    assert [entry["number"] for entry in platform.audit(actor=key["id"])] == [3]
    assert [entry["number"] for entry in platform.audit(kind="tenants", id=tenant)] == [3, 1]
