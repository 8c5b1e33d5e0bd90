"""Usage over HTTP, from a real warehouse."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from forebay.metering.usage import UsageRecord
from forebay.storage.objects.opening import open_objects
from forebay.storage.usage.duck import Duck
from forebay.storage.usage.partitions import Partitions
from forebay.storage.usage.warehouse import Warehouse
from tests.contract.gateway_admin.platform import AdminPlatform, admin_platform


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def record(id_: str, **fields: Any) -> UsageRecord:
    values: dict[str, Any] = {
        "id": id_,
        "request_id": f"req-{id_}",
        "tenant": "search",
        "key": "key-1",
        "tags": {},
        "alias": "assistant",
        "model_version": "smollm2:1",
        "pool": "chat",
        "replica": None,
        "priority": "standard",
        "route": "chat/completions",
        "stream": False,
        "opened_at": at("2026-11-01T08:00"),
        "ended_at": at("2026-11-01T08:00"),
        "status": "completed",
        "http_status": 200,
        "counted": "engine",
        "prompt_tokens": 100,
        "cached_tokens": 10,
        "output_tokens": 5,
        "ttft_s": None,
        "tpot_s": None,
        "queue_wait_s": None,
        "fallback": False,
        "price_version": None,
        "cost_nanos": 1_500,
    } | fields
    known = {field.name for field in msgspec.structs.fields(UsageRecord)}
    return UsageRecord(**{name: value for name, value in values.items() if name in known})


def stored(each: UsageRecord) -> bytes:
    """As a line of the log tells it: with the prompts' part of the cost."""
    return msgspec.json.encode({**msgspec.to_builtins(each), "prompt_nanos": PROMPT_NANOS}) + b"\n"


PROMPT_NANOS = 400
RECORDS = (
    record("1", tags={"team": "a b"}),
    record("2", priority="batch", cost_nanos=500),
    record("3", tenant="other", key="key-2", ended_at=at("2026-11-01T09:30")),
    record("4", ended_at=at("2026-10-31T23:59:59")),
    record("5", alias="team/coder", status="failed", http_status=502),
)


def cost(nanos: int, requests: int = 1) -> dict[str, object]:
    return {
        "cost_nanos": nanos,
        "prompt_nanos": PROMPT_NANOS * requests,
        "cost_usd": f"{nanos / 10**9:.7f}".rstrip("0"),
    }


ONE = {"requests": 1, "prompt_tokens": 100, "cached_tokens": 10, "output_tokens": 5}


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[AdminPlatform]:
    objects, scratch = open_objects(tmp_path / "objects", {}), tmp_path / "scratch"
    duck = Duck(scratch, 256)
    partitions = Partitions(objects, scratch, 2**20)
    partitions.put_records(duck, b"".join(map(stored, RECORDS)), "all")
    books = Warehouse(partitions, duck, tmp_path / "log", scratch)
    try:
        with admin_platform(tmp_path, books) as made:
            made.made("tenants", id="search")
            yield made
    finally:
        books.close()
        duck.close()


def test_all_of_this_month_by_model_and_class(platform: AdminPlatform) -> None:
    answer = platform.send("GET", "/admin/v1/usage")
    assert answer.status == 200
    assert answer.json == {
        "object": "usage",
        "from": "2026-11-01T00:00:00Z",
        "to": "2026-11-01T12:00:00Z",
        "group_by": ["model", "priority"],
        "data": [
            {"model": "assistant", "priority": "batch", **ONE, **cost(500)},
            {
                **{"model": "assistant", "priority": "standard", "requests": 2, "prompt_tokens": 200},
                **{"cached_tokens": 20, "output_tokens": 10, **cost(3000, 2)},
            },
            {"model": "team/coder", "priority": "standard", **ONE, **cost(1500)},
        ],
        "total": {
            **{"requests": 4, "prompt_tokens": 400, "cached_tokens": 40, "output_tokens": 20},
            **cost(5000, 4),
        },
    }


def test_a_tenant_sees_its_own(platform: AdminPlatform) -> None:
    key = platform.made("keys", tenant="search")["secret"]
    own = platform.send("GET", "/v1/usage?group_by=tenant,day&from=2026-10", key=key).json
    assert [(row["tenant"], row["day"], row["requests"]) for row in own["data"]] == [
        ("search", "2026-10-31", 1),
        ("search", "2026-11-01", 3),
    ]
    assert own["from"] == "2026-10-01T00:00:00Z"
    same = platform.send("GET", "/v1/usage?tenant=search", key=key)
    assert same.json["total"]["requests"] == 3
    others = platform.send("GET", "/v1/usage?tenant=other", key=key)
    assert (others.status, others.param) == (403, "tenant")
    assert platform.send("HEAD", "/v1/usage", key=key).status == 200
    assert platform.send("GET", "/admin/v1/usage", key=key).status == 403


def test_who_may_not(platform: AdminPlatform) -> None:
    key = platform.made("keys", tenant="search", scopes=["inference"])["secret"]
    assert platform.send("GET", "/v1/usage", key=key).status == 403
    for path in ("/v1/usage", "/admin/v1/usage"):
        assert platform.send("GET", path, key=None).status == 401


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("tenant=other", 1),
        ("key=key-2", 1),
        ("model=assistant", 3),
        ("alias=team/coder", 1),
        ("priority=batch", 1),
        ("status=failed", 1),
        ("pool=chat&model_version=smollm2:1", 4),
        ("tag:team=a%20b", 1),
        ("tag:team=c", 0),
        ("from=2026-10-31&to=2026-11-01", 1),
        ("from=2026-11-01T09:30:00Z", 1),
        ("from=2026-11-01T10:30:00%2B01:00&to=2026-11-01T10:30:01+01:00", 1),
        (f"from={at('2026-11-01T08:00'):.0f}&to={at('2026-11-01T08:00') + 1:.0f}", 3),
    ],
)
def test_what_is_counted(platform: AdminPlatform, query: str, ids: int) -> None:
    assert platform.send("GET", f"/admin/v1/usage?{query}").json["total"]["requests"] == ids


def test_other_groups(platform: AdminPlatform) -> None:
    def groups(names: str) -> list[Any]:
        answer = platform.send("GET", f"/admin/v1/usage?group_by={quote(names)}").json
        return [[row[name] for name in answer["group_by"]] for row in answer["data"]]

    assert groups("tag:team") == [["a b"], [None]]
    assert groups("tenant, hour") == [["other", "2026-11-01T09:00Z"], ["search", "2026-11-01T08:00Z"]]
    assert groups("month,status") == [["2026-11", "completed"], ["2026-11", "failed"]]
    assert groups("alias") == [["assistant"], ["team/coder"]]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("from=yesterday", "from"),
        ("from=2026", "from"),
        ("from=2026-13", "from"),
        ("from=2026-11-01T00:00:00", "from"),
        ("to=999999999999", "to"),
        ("from=1969-12", "from"),
        ("from=2026-11&to=2026-11", "from"),
        ("from=2027-01", "from"),
        ("group_by=modle", "group_by"),
        ("group_by=model,alias", "group_by"),
        ("group_by=tag:", "group_by"),
        ("group_by=tag:a,tag:b,tag:c,tag:d,tag:e,tag:f,tag:g,tag:h,tag:i", "group_by"),
        ("model=a&alias=a", "alias"),
        ("tenent=x", "tenent"),
        ("tag:=x", "tag:"),
    ],
)
def test_questions_that_are_refused(platform: AdminPlatform, query: str, param: str) -> None:
    answer = platform.send("GET", f"/admin/v1/usage?{query}")
    assert (answer.status, answer.param) == (400, param), answer.body
    assert answer.json["detail"].startswith(f"{param}:")


def test_records_page_after_page(platform: AdminPlatform) -> None:
    def page(query: str) -> Any:
        answer = platform.send("GET", f"/admin/v1/usage/records?{query}")
        assert answer.status == 200, answer.body
        assert answer.json["object"] == "list"
        told = answer.json
        return [row["id"] for row in told["data"]], told["has_more"], told["last_id"]

    assert page("from=2026-10") == (["4", "1", "2", "5", "3"], False, "3")
    assert page("from=2026-10&limit=2") == (["4", "1"], True, "1")
    assert page("from=2026-10&limit=2&after=1") == (["2", "5"], True, "5")
    assert page("from=2026-10&limit=2&after=5") == (["3"], False, "3")
    assert page("from=2026-10&after=3") == ([], False, None)
    assert page("limit=1000&model=assistant&tenant=search") == (["1", "2"], False, "2")
    assert page("tag:team=a%20b") == (["1"], False, "1")


def test_a_record_is_told_but_for_the_hash_of_its_idempotency_key(platform: AdminPlatform) -> None:
    (told,) = platform.send("GET", "/admin/v1/usage/records?priority=batch").json["data"]
    expected = {"object": "usage_record", **msgspec.to_builtins(RECORDS[1])}
    del expected["idempotency_hash"]
    assert told == expected
    document = (Path(__file__).parents[3] / "docs" / "admin.md").read_text(encoding="utf-8")
    example = document.partition("## Usage records")[2].partition("```json")[2].partition("```")[0]
    assert list(json.loads(example)["data"][0]) == list(told)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("after=nobody", "after"),
        ("after=4", "after"),
        ("group_by=model", "group_by"),
        ("from=2026-11&to=2026-11", "from"),
        ("model=a&alias=a", "alias"),
        ("pol=x", "pol"),
    ],
)
def test_questions_for_records_that_are_refused(platform: AdminPlatform, query: str, param: str) -> None:
    answer = platform.send("GET", f"/admin/v1/usage/records?{query}")
    assert (answer.status, answer.param) == (400, param), answer.body


def test_records_are_for_operators(platform: AdminPlatform) -> None:
    key = platform.made("keys", tenant="search")["secret"]
    assert platform.send("GET", "/admin/v1/usage/records", key=key).status == 403
    assert platform.send("GET", "/admin/v1/usage/records", key=None).status == 401
    assert platform.send("HEAD", "/admin/v1/usage/records").status == 200
