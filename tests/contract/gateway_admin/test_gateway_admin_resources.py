"""Every kind: created, read, listed, replaced, patched, deleted."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.gateway_admin.platform import START, AdminPlatform

PROMPT = {"id": "house/rules//v1/", "text": "Be brief."}
FUTURE = START + 86400


def path_of(kind: str, id_: str) -> str:
    return f"/admin/v1/{kind}/{quote(id_, safe='')}"


def created(platform: AdminPlatform, kind: str) -> dict[str, Any]:
    """One of each kind, of the tenant `search`."""
    fields: dict[str, dict[str, Any]] = {
        "tenants": {"id": "other"},
        "keys": {"tenant": "search"},
        "quotas": {"tenant": "search", "alias": "team/coder", "tokens_per_minute": 1000},
        "prices": {"prompt_usd_per_million": "1", "output_usd_per_million": 2, "effective_from": FUTURE},
        "prompts": PROMPT,
    }
    return platform.made(kind, **fields[kind])


CHANGES: dict[str, tuple[dict[str, Any], str, Any]] = {
    "tenants": ({"name": "Other"}, "name", ""),
    "keys": ({"models": ["assistant"]}, "models", None),
    "quotas": ({"concurrent_requests": 3}, "concurrent_requests", None),
    "prices": ({"cached_usd_per_million": "0.25"}, "cached_usd_per_million", None),
    "prompts": ({"models": ["assistant"]}, "models", None),
}
"""Kind → a change, what it changes, and what that is by default."""


@pytest.mark.parametrize("kind", CHANGES)
def test_the_life_of_one(platform: AdminPlatform, tenant: str, kind: str) -> None:
    row = created(platform, kind)
    path = path_of(kind, row["id"])
    assert (row["object"], row["revision"], row["updated_at"]) == (kind.removesuffix("s"), 1, START)

    read = platform.send("GET", path)
    assert read.status == 200
    assert read.json == {name: value for name, value in row.items() if name != "secret"}
    assert read.etag == '"1"'

    change, field, default = CHANGES[kind]
    patched = platform.send("PATCH", path, change, Content_Type="application/merge-patch+json")
    assert (patched.status, patched.json[field], patched.etag) == (200, change[field], '"2"')

    back = platform.send("PATCH", path, {field: None})
    assert (back.status, back.json[field], back.etag) == (200, default, '"3"')

    put = platform.send("PUT", path, patched.json)
    assert (put.status, put.json[field], put.etag) == (200, change[field], '"4"')

    assert platform.send("DELETE", path).status == 204
    gone = platform.send("GET", path)
    assert (gone.status, gone.json["type"]) == (404, "urn:forebay:problem:resource-not-found")
    actions = [entry["action"] for entry in platform.audit(kind=kind, id=quote(row["id"], safe=""))]
    assert actions == ["delete", "replace", "replace", "replace", "create"]


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_nothing_is_none(platform: AdminPlatform, tenant: str, kind: str) -> None:
    row = created(platform, kind)
    for method, body in (("PATCH", {}), ("PUT", {k: v for k, v in row.items() if k != "secret"})):
        answer = platform.send(method, path_of(kind, row["id"]), body)
        assert (answer.status, answer.etag) == (200, '"1"')
    assert len(platform.audit(kind=kind, id=quote(row["id"], safe=""))) == 1


@pytest.mark.parametrize("kind", CHANGES)
def test_whoever_has_the_newest_is_told_so(platform: AdminPlatform, tenant: str, kind: str) -> None:
    path = path_of(kind, created(platform, kind)["id"])
    same = platform.send("GET", path, If_None_Match='"7", W/"1"')
    assert (same.status, same.body, same.etag) == (304, b"", '"1"')
    assert platform.send("GET", path, If_None_Match='"2"').status == 200
    head = platform.send("HEAD", path)
    assert (head.status, head.body, head.etag) == (200, b"", '"1"')


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("kind", CHANGES)
def test_what_is_not_there(platform: AdminPlatform, tenant: str, kind: str, method: str) -> None:
    row = created(platform, kind)
    assert platform.send("DELETE", path_of(kind, row["id"])).status == 204
    body = {name: value for name, value in row.items() if name != "secret"} if method == "PUT" else {}
    answer = platform.send(method, path_of(kind, row["id"]), None if method in {"GET", "DELETE"} else body)
    if method == "PUT" and kind == "tenants":
        assert (answer.status, answer.json["type"]) == (409, "urn:forebay:problem:conflict")
    elif method == "PUT" and kind in {"quotas", "prompts"}:
        assert (answer.status, answer.etag, answer.headers["location"]) == (201, '"1"', path_of(kind, row["id"]))
    else:
        assert (answer.status, answer.json["type"]) == (404, "urn:forebay:problem:resource-not-found")
        assert f"/admin/v1/{kind}" in answer.json["detail"]


@pytest.mark.parametrize("kind", CHANGES)
def test_where_a_new_one_is(platform: AdminPlatform, tenant: str, kind: str) -> None:
    made = {"tenants": {"id": "x"}, "keys": {"tenant": "search"}, "quotas": {"tenant": "search"}, "prompts": PROMPT}
    fields = made.get(kind, {"prompt_usd_per_million": 1, "output_usd_per_million": 1})
    answer = platform.send("POST", f"/admin/v1/{kind}", fields)
    assert (answer.status, answer.etag) == (201, '"1"')
    assert answer.headers["location"] == path_of(kind, answer.json["id"])
    assert platform.send("GET", answer.headers["location"]).json["id"] == answer.json["id"]
    if kind != "keys":
        again = platform.send("POST", f"/admin/v1/{kind}", fields)
        assert (again.status, again.json["type"]) == (409, "urn:forebay:problem:conflict")


def test_pages(platform: AdminPlatform) -> None:
    for number in range(5):
        platform.made("tenants", id=f"t{number}")
    ids, after, sizes = [], "", []
    while True:
        page = platform.send("GET", f"/admin/v1/tenants?limit=2{after}").json
        ids += [row["id"] for row in page["data"]]
        sizes.append(len(page["data"]))
        assert page["last_id"] == ids[-1]
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert ids == ["t0", "t1", "t2", "t3", "t4"]
    assert sizes == [2, 2, 1]
    beyond = platform.send("GET", "/admin/v1/tenants?after=t4")
    assert beyond.json == {"object": "list", "data": [], "has_more": False, "last_id": None}
    assert platform.send("HEAD", "/admin/v1/tenants").body == b""


def test_lists_are_narrowed(platform: AdminPlatform, tenant: str) -> None:
    platform.made("tenants", id="other")
    key = platform.made("keys", tenant="other")["id"]
    platform.made("keys", tenant=tenant)
    for fields in ({"tenant": tenant}, {"tenant": tenant, "alias": "team/coder"}, {"tenant": "other", "key": key}):
        platform.made("quotas", **fields)
    for model, priority in (("*", "*"), ("chat", "*"), ("chat", "batch")):
        money = {"prompt_usd_per_million": 1, "output_usd_per_million": 1}
        platform.made("prices", model=model, priority=priority, **money)

    def count(path: str) -> int:
        return len(platform.send("GET", f"/admin/v1/{path}").json["data"])

    assert count("keys?tenant=other") == 1
    assert count("quotas?tenant=search") == 2
    assert count("quotas?tenant=search&alias=team/coder") == 1
    assert count(f"quotas?key={key}") == 1
    assert count("prices?model=chat") == 2
    assert count("prices?model=chat&priority=batch") == 1
    assert count("prices?model=*") == 1


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("tenants?limit=0", "limit"),
        ("tenants?limit=1001", "limit"),
        ("tenants?limit=ten", "limit"),
        ("tenants?limit=", "limit"),
        ("tenants?limit=1&limit=2", "limit"),
        ("tenants?tenant=x", "tenant"),
        ("keys?tennant=x", "tennant"),
        ("prices?modle=x", "modle"),
        ("audit?before=0", "before"),
        ("audit?kind=tenant", "tenant"),
        ("audit?after=3", "after"),
    ],
)
def test_queries_that_are_refused(platform: AdminPlatform, path: str, param: str) -> None:
    answer = platform.send("GET", f"/admin/v1/{path}")
    assert (answer.status, answer.param) == (400, param)


def test_a_misspelt_filter_is_recognised(platform: AdminPlatform) -> None:
    assert "did you mean tenant" in platform.send("GET", "/admin/v1/keys?tennant=x").json["detail"]
