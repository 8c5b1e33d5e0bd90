"""What is refused: who may not, what cannot be, what someone else was faster with, what cannot be written now."""

import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from forebay.administration.kinds import TENANTS
from tests.contract.gateway_admin.platform import START, AdminPlatform

MONEY = {"prompt_usd_per_million": "1", "output_usd_per_million": "1"}
PATHS = [
    ("GET", "/admin/v1/tenants"),
    ("POST", "/admin/v1/tenants"),
    ("GET", "/admin/v1/keys/x"),
    ("PUT", "/admin/v1/quotas/x"),
    ("PATCH", "/admin/v1/prices/x"),
    ("DELETE", "/admin/v1/prompts/x"),
    ("POST", "/admin/v1/keys/x/rotate"),
    ("GET", "/admin/v1/audit"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_who_may_not(platform: AdminPlatform, tenant: str, method: str, path: str) -> None:
    body = {"id": "x"} if method in {"POST", "PUT", "PATCH"} else None
    stranger = platform.send(method, path, body, key="fb-nobody-0123456789")
    assert (stranger.status, stranger.json["type"]) == (401, "urn:forebay:problem:invalid-api-key")
    assert platform.send(method, path, body, key=None).status == 401
    key = platform.made("keys", tenant=tenant, scopes=["inference", "retrieval", "usage"])["secret"]
    answer = platform.send(method, path, body, key=key)
    assert (answer.status, answer.json["type"]) == (403, "urn:forebay:problem:permission-denied")
    assert "admin" in answer.json["detail"]


@pytest.mark.parametrize(
    ("kind", "fields", "param", "said"),
    [
        ("tenants", {}, "id", "required"),
        ("tenants", {"id": "a b"}, "id", "regex"),
        ("tenants", {"id": "x", "nmae": "X"}, "nmae", "did you mean name"),
        ("tenants", {"id": "x", "default_class": "standard", "highest_class": "batch"}, "default_class", "above"),
        ("tenants", {"id": "x", "highest_class": "fast"}, "highest_class", "'interactive'"),
        ("tenants", {"id": "x", "name": "\0"}, "name", "zero character"),
        ("keys", {"tenant": "nobody"}, "tenant", "no tenant nobody"),
        ("keys", {"tenant": "search", "scopes": []}, "scopes", ">= 1"),
        ("keys", {"tenant": "search", "scopes": ["inferense"]}, "scopes[0]", "'inference'"),
        ("keys", {"tenant": "search", "models": ["asistant"]}, "models[0]", "did you mean assistant"),
        ("keys", {"tenant": "search", "expires_at": START}, "expires_at", "past"),
        ("keys", {"tenant": "search", "expires_at": 1e300}, "expires_at", "9999"),
        ("keys", {"tenant": "search", "hash": "00"}, "hash", "leave it out"),
        ("keys", {"tenant": "search", "secret": "fb-mine"}, "secret", "leave it out"),
        ("keys", {"tenant": "search", "id": "mine"}, "id", "leave it out"),
        ("keys", {"tenant": "search", "tags": {"a": {"b": "c"}}}, "tags", "str"),
        ("quotas", {"tenant": "nobody"}, "tenant", "no tenant nobody"),
        ("quotas", {"tenant": "search", "alias": "gpt-9"}, "alias", "there are assistant, team/coder"),
        ("quotas", {"tenant": "search", "key": "key-9"}, "key", "no key key-9"),
        ("quotas", {"tenant": "search", "key": "k", "alias": "assistant"}, "alias", "not both"),
        ("quotas", {"tenant": "search", "token_burst": 9}, "token_burst", "tokens_per_minute"),
        ("quotas", {"tenant": "search", "tokens_per_minute": -1}, "tokens_per_minute", ">= 0"),
        ("quotas", {"tenant": "search", "tokens_per_minute": 10**9}, "tokens_per_minute", "<= 100000000"),
        ("quotas", {"tenant": "search", "monthly_budget_usd": "0.1234567891"}, "monthly_budget_usd", "9 decimals"),
        ("quotas", {"tenant": "search", "monthly_budget_usd": 0.1234567891}, "monthly_budget_usd", "9 decimals"),
        ("quotas", {"tenant": "search", "monthly_budget_usd": "NaN"}, "monthly_budget_usd", "amount"),
        ("quotas", {"tenant": "search", "monthly_budget_usd": "1_000"}, "monthly_budget_usd", "such as 12.5"),
        ("quotas", {"tenant": "search", "monthly_budget_usd": -1}, "monthly_budget_usd", "amount"),
        ("quotas", {"tenant": "search", "monthly_budget_usd": "1e400"}, "monthly_budget_usd", "amount"),
        ("quotas", {"tenant": "search", "id": "other"}, "id", "search"),
        ("prices", {"model": "chta", **MONEY}, "model", "did you mean chat"),
        ("prices", {"model": "assistant", **MONEY}, "model", "there are"),
        ("prices", {"output_usd_per_million": 1}, "prompt_usd_per_million", "required"),
        ("prices", {**MONEY, "priority": "fast"}, "priority", "'batch'"),
        ("prices", {**MONEY, "effective_from": -1}, "effective_from", "Unix seconds"),
        ("prompts", {"id": "with blank", "text": "x"}, "id", "regex"),
        ("prompts", {"id": "x", "text": ""}, "text", ">= 1"),
        ("prompts", {"id": "x", "text": "y", "models": ["gpt"]}, "models[0]", "there are"),
    ],
)
def test_what_cannot_be(
    platform: AdminPlatform, tenant: str, kind: str, fields: dict[str, Any], param: str, said: str
) -> None:
    answer = platform.send("POST", f"/admin/v1/{kind}", fields)
    assert (answer.status, answer.param) == (400, param), answer.body
    assert said in answer.json["detail"]
    assert answer.json["detail"].startswith(f"{param}")
    assert len(platform.audit()) == 1, "only the tenant was made"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "malformed-json"),
        (b"{", "malformed-json"),
        (b"[]", "invalid-request"),
        (b'"x"', "invalid-request"),
        (b'{"name": "\xff"}', "malformed-json"),
        (b'{"tags": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "invalid-request"),
        (b'{"name": "\\ud800"}', "malformed-json"),
    ],
)
def test_bodies_that_are_no_objects(platform: AdminPlatform, tenant: str, body: bytes, problem: str) -> None:
    for method, path in (
        ("POST", "/admin/v1/tenants"),
        ("PUT", "/admin/v1/tenants/x"),
        ("PATCH", "/admin/v1/tenants/search"),
    ):
        answer = platform.send(method, path, body)
        assert (answer.status, answer.json["type"]) == (400, f"urn:forebay:problem:{problem}"), answer.body


def test_other_media_types_and_too_much(platform: AdminPlatform) -> None:
    assert platform.send("POST", "/admin/v1/tenants", b"id: x", Content_Type="application/yaml").status == 415
    assert platform.send("POST", "/admin/v1/prompts", {"id": "x", "text": "x" * 2_200_000}).status == 413
    longest = "\u00e9" * 200_000
    assert platform.send("POST", "/admin/v1/prompts", {"id": "x", "text": longest}).json["text"] == longest


@pytest.mark.parametrize("path", ["/admin/v1", "/admin/v1/", "/admin/v1/tenant", "/admin/v1/models/x"])
def test_paths_that_are_not_there(platform: AdminPlatform, path: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = platform.send(method, path, {} if method == "POST" else None)
        assert (answer.status, answer.json["type"]) == (404, "urn:forebay:problem:not-found")
        assert "tenants, keys, quotas, prices, prompts, audit, usage" in answer.json["detail"]


def test_methods_that_are_not_taken(platform: AdminPlatform, tenant: str) -> None:
    key = platform.made("keys", tenant=tenant)["id"]
    for method, path, allowed in (
        ("DELETE", "/admin/v1/tenants", "GET, HEAD, OPTIONS, POST"),
        ("POST", f"/admin/v1/tenants/{tenant}", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
        ("POST", f"/admin/v1/keys/{key}", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
    ):
        answer = platform.send(method, path, {})
        assert (answer.status, answer.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("kind", "fields", "change", "param"),
    [
        ("keys", {"tenant": "search"}, {"tenant": "other"}, "tenant"),
        ("quotas", {"tenant": "search"}, {"alias": "assistant"}, "alias"),
        ("quotas", {"tenant": "search"}, {"tenant": "other"}, "tenant"),
        ("prices", {**MONEY, "effective_from": START + 9}, {"effective_from": START + 10}, "effective_from"),
        ("prices", {**MONEY, "effective_from": START + 9}, {"model": "chat"}, "model"),
        ("tenants", {"id": "x"}, {"id": "y"}, "id"),
        ("prompts", {"id": "x", "text": "y"}, {"text": None}, "text"),
        ("prompts", {"id": "x", "text": "y"}, {"txet": None}, "txet"),
        ("keys", {"tenant": "search"}, {"hash": None}, "hash"),
    ],
)
def test_what_never_changes(
    platform: AdminPlatform, tenant: str, kind: str, fields: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    platform.made("tenants", id="other")
    row = platform.made(kind, **fields)
    answer = platform.send("PATCH", f"/admin/v1/{kind}/{quote(row['id'], safe='')}", change)
    assert (answer.status, answer.param) == (400, param), answer.body


def test_a_price_that_has_begun(platform: AdminPlatform) -> None:
    future = platform.made("prices", model="chat", priority="batch", effective_from=START + 60, **MONEY)
    assert future["id"] == "chat:batch:2026-11-01T12:01:00Z"
    path = f"/admin/v1/prices/{quote(future['id'], safe='')}"
    assert platform.send("PATCH", path, {"prompt_usd_per_million": "1.50"}).json["prompt_usd_per_million"] == "1.5"
    platform.wall.now = START + 60
    for method, body in (
        ("PATCH", {"prompt_usd_per_million": 3}),
        ("PUT", MONEY | {"model": "chat", "priority": "batch"}),
    ):
        answer = platform.send(method, path, body)
        assert (answer.status, answer.json["type"]) == (409, "urn:forebay:problem:conflict")
        assert "POST /admin/v1/prices" in answer.json["detail"]
    assert platform.send("DELETE", path).status == 409
    assert platform.send("PATCH", path, {}).status == 200, "which changes nothing"
    platform.wall.now = START + 61.5
    newer = platform.made("prices", model="chat", priority="batch", **MONEY)
    assert (newer["effective_from"], newer["id"]) == (START + 61.5, "chat:batch:2026-11-01T12:01:01.500000Z")


def test_small_amounts_are_told_plainly(platform: AdminPlatform) -> None:
    price = platform.made("prices", prompt_usd_per_million="1E-9", output_usd_per_million=1e8, effective_from=START + 1)
    assert (price["prompt_usd_per_million"], price["output_usd_per_million"]) == ("0.000000001", "100000000")


def test_what_others_name_is_not_deleted(platform: AdminPlatform, tenant: str) -> None:
    key = platform.made("keys", tenant=tenant)["id"]
    platform.made("quotas", tenant=tenant, key=key)
    for path in (f"/admin/v1/tenants/{tenant}", f"/admin/v1/keys/{key}"):
        answer = platform.send("DELETE", path)
        assert (answer.status, answer.json["type"]) == (409, "urn:forebay:problem:conflict")
    for path in (f"/admin/v1/quotas/{tenant}%3Akey%3A{key}", f"/admin/v1/keys/{key}", f"/admin/v1/tenants/{tenant}"):
        assert platform.send("DELETE", path).status == 204


def test_a_quota_for_another_tenants_key(platform: AdminPlatform, tenant: str) -> None:
    platform.made("tenants", id="other")
    key = platform.made("keys", tenant="other")["id"]
    answer = platform.send("POST", "/admin/v1/quotas", {"tenant": tenant, "key": key})
    assert (answer.status, answer.param) == (400, "key")
    assert "other" in answer.json["detail"]


def test_names_that_are_gone_do_not_hold_up_a_change(platform: AdminPlatform, tenant: str) -> None:
    key = platform.made("keys", tenant=tenant, models=["assistant"])["id"]
    platform.aliases.remove("assistant")
    disabled = platform.send("PATCH", f"/admin/v1/keys/{key}", {"disabled": True})
    assert (disabled.status, disabled.json["models"]) == (200, ["assistant"])
    assert platform.send("PATCH", f"/admin/v1/keys/{key}", {"models": ["assistant", "gone"]}).param == "models[1]"


def test_conditions(platform: AdminPlatform, tenant: str) -> None:
    path = f"/admin/v1/tenants/{tenant}"
    for method, body in (("PUT", {"name": "A"}), ("PATCH", {"name": "A"}), ("DELETE", None)):
        stale = platform.send(method, path, body, If_Match='"2"')
        assert (stale.status, stale.json["type"]) == (412, "urn:forebay:problem:precondition-failed")
        assert "revision 1" in stale.json["detail"]
        malformed = platform.send(method, path, body, If_Match="2")
        assert (malformed.status, malformed.param) == (400, "If-Match")
    assert platform.send("PUT", path, {"name": "B"}, If_None_Match="*").status == 412
    assert platform.send("PUT", path, {"name": "B"}, If_None_Match='"1"').param == "If-None-Match"
    assert platform.send("PUT", "/admin/v1/tenants/new", {}, If_Match="*").status == 412
    assert platform.send("PUT", "/admin/v1/tenants/new", {}, If_Match='"1"').status == 412
    assert platform.send("PUT", "/admin/v1/tenants/new", {}, If_None_Match="*").status == 201
    assert platform.send("PATCH", path, {"name": "C"}, If_Match='"9", W/"1"').etag == '"2"'
    assert platform.send("DELETE", path, If_Match='"2"').status == 204


def at_once(count: int, act: Any) -> list[Any]:
    """What each of `count` gets, all of which start together."""
    start, answers = threading.Barrier(count), []

    def run(number: int) -> None:
        start.wait(10)
        answers.append(act(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == count
    return answers


def test_of_writers_who_saw_the_same_one_wins(platform: AdminPlatform, tenant: str) -> None:
    def write(number: int) -> int:
        body = {"name": f"writer {number}"}
        return platform.send("PATCH", f"/admin/v1/tenants/{tenant}", body, If_Match='"1"').status

    assert sorted(at_once(6, write)) == [200, 412, 412, 412, 412, 412]
    assert platform.send("GET", f"/admin/v1/tenants/{tenant}").etag == '"2"'


def test_patches_of_other_fields_are_not_lost(platform: AdminPlatform, tenant: str) -> None:
    fields = ("allow_fallback", "canary", "log_content")
    answers = at_once(
        3, lambda number: platform.send("PATCH", f"/admin/v1/tenants/{tenant}", {fields[number]: True}).status
    )
    assert answers == [200, 200, 200]
    row = platform.send("GET", f"/admin/v1/tenants/{tenant}").json
    assert [row[field] for field in fields] == [True, True, True]


def test_of_creators_one_wins(platform: AdminPlatform) -> None:
    assert sorted(at_once(4, lambda _: platform.send("POST", "/admin/v1/tenants", {"id": "x"}).status)) == [
        201,
        409,
        409,
        409,
    ]
    assert sorted(at_once(4, lambda n: platform.send("PUT", "/admin/v1/tenants/y", {"name": str(n)}).status)) == [
        200,
        200,
        200,
        201,
    ]


def test_a_database_that_is_away(platform: AdminPlatform, tenant: str, tmp_path: Path) -> None:
    key = platform.made("keys", tenant=tenant)
    before = platform.store.change_number()
    moved = [(path, path.with_name(path.name + ".away")) for path in tmp_path.iterdir()]
    platform.store.close()
    for path, away in moved:
        if path.exists():
            path.rename(away)
    (tmp_path / "configuration.db").mkdir()
    for method, path, body in (
        ("GET", "/admin/v1/tenants", None),
        ("GET", f"/admin/v1/tenants/{tenant}", None),
        ("POST", "/admin/v1/tenants", {"id": "x"}),
        ("PATCH", f"/admin/v1/tenants/{tenant}", {"name": "x"}),
        ("DELETE", f"/admin/v1/keys/{key['id']}", None),
        ("POST", f"/admin/v1/keys/{key['id']}/rotate", {}),
        ("GET", "/admin/v1/audit", None),
    ):
        answer = platform.send(method, path, body)
        assert (answer.status, answer.json["type"]) == (503, "urn:forebay:problem:store-unavailable"), answer.body
        assert "database" in answer.json["detail"]
        assert "retry-after" in answer.headers
    assert platform.key_id_of(key["secret"]) == key["id"], "keys are looked up in memory"
    (tmp_path / "configuration.db").rmdir()
    for path, away in moved:
        if away.exists():
            away.rename(path)
    assert platform.store.change_number() == before
    assert platform.store.get(TENANTS, "x") is None
    assert platform.send("POST", "/admin/v1/tenants", {"id": "x"}).status == 201
