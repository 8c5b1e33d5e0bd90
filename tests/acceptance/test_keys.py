"""Who is let in, to what, and how the others are told: by the typed exceptions of OpenAI's and Anthropic's clients."""

import time
from typing import Any

import httpx
import openai
import pytest

from tests.acceptance.operated import ENDLESS_BATCH_PRICE, ENDLESS_WINDOW, Operated, chat


def problem(error: openai.APIStatusError) -> dict[str, Any]:
    """The whole body of a refusal."""
    body: dict[str, Any] = error.response.json()
    assert error.response.headers["content-type"] == "application/problem+json"
    assert body["status"] == error.status_code
    assert body["error"]["message"] == body["detail"]
    return body


def unauthenticated(service: Operated, secret: str) -> str:
    """What a key is told that is not accepted."""
    with pytest.raises(openai.AuthenticationError) as refused:
        service.client(secret, max_retries=2).chat.completions.create(**chat())
    body = problem(refused.value)
    assert body["type"] == "urn:forebay:problem:invalid-api-key"
    assert body["error"]["code"] == "invalid_api_key"
    assert refused.value.response.headers["www-authenticate"] == "Bearer"
    return str(body["detail"])


def test_keys_that_are_not_accepted(service: Operated) -> None:
    tenant = service.tenant()
    assert "not known" in unauthenticated(service, "fb-unknown-unknown-unknown")

    expired = service.key(tenant, expires_at=time.time() + 3600)
    assert service.client(expired["secret"]).models.list().data
    service.done("PATCH", f"keys/{expired['id']}", {"expires_at": time.time() - 1})
    assert "expired" in unauthenticated(service, expired["secret"])

    disabled = service.key(tenant)
    service.done("PATCH", f"keys/{disabled['id']}", {"disabled": True})
    assert "disabled" in unauthenticated(service, disabled["secret"])

    deleted = service.key(tenant)
    service.done("DELETE", f"keys/{deleted['id']}")
    assert "not known" in unauthenticated(service, deleted["secret"])

    other = service.key(tenant)
    service.done("PATCH", f"tenants/{tenant}", {"disabled": True})
    assert tenant in unauthenticated(service, other["secret"])
    service.done("PATCH", f"tenants/{tenant}", {"disabled": False})
    assert service.client(other["secret"]).models.list().data


def test_a_rotated_key_overlaps_for_as_long_as_was_said(service: Operated) -> None:
    key = service.key(service.tenant())
    rotated = service.done("POST", f"keys/{key['id']}/rotate", {"overlap_s": 1.5})
    until = rotated["previous_expires_at"]
    assert rotated["secret"] != key["secret"]
    assert service.client(rotated["secret"]).models.list().data
    assert service.client(key["secret"]).models.list().data
    assert time.time() < until, "too slow to have seen the overlap"
    time.sleep(until - time.time() + 0.05)
    assert "rotated" in unauthenticated(service, key["secret"])
    assert service.client(rotated["secret"]).models.list().data

    at_once = service.done("POST", f"keys/{key['id']}/rotate", {"overlap_s": 0})
    assert "not known" in unauthenticated(service, rotated["secret"])
    assert service.client(at_once["secret"]).models.list().data


def test_a_key_without_the_scope(service: Operated) -> None:
    key = service.key(service.tenant(), scopes=["usage"])
    with pytest.raises(openai.PermissionDeniedError) as refused:
        service.client(key["secret"], max_retries=2).chat.completions.create(**chat())
    body = problem(refused.value)
    assert body["type"] == "urn:forebay:problem:permission-denied"
    assert "inference" in body["detail"]
    assert service.usage(key["secret"], "status") == []

    blind = service.key(service.tenant(), scopes=["inference"])
    with service.http(blind["secret"]) as client:
        assert client.get("/v1/usage").status_code == 403
        assert client.get("/admin/v1/tenants").status_code == 403


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"extra_headers": {"X-Priority": "interactive"}}, "X-Priority"),
        ({"service_tier": "priority"}, "service_tier"),
    ],
)
def test_a_class_above_the_allowed_one(service: Operated, asked: dict[str, Any], param: str) -> None:
    tenant = service.tenant(default_class="batch", highest_class="standard")
    client = service.client(service.key(tenant)["secret"], max_retries=2)
    with pytest.raises(openai.PermissionDeniedError) as refused:
        client.chat.completions.create(**chat(), **asked)
    assert refused.value.param == param
    assert "interactive" in problem(refused.value)["detail"]
    assert service.usage(client.api_key, "status") == []


def test_the_class_is_the_asked_one_else_the_tenant_s_default(service: Operated) -> None:
    tenant = service.tenant(default_class="batch", highest_class="standard")
    client = service.client(service.key(tenant)["secret"])
    client.chat.completions.create(**chat())
    client.chat.completions.create(**chat(), service_tier="flex")
    client.chat.completions.create(**chat(), service_tier="auto")
    client.chat.completions.create(**chat(), extra_headers={"X-Priority": "standard"})
    client.chat.completions.create(**chat(), service_tier="priority", extra_headers={"X-Priority": "standard"})
    used = {row["priority"]: row["requests"] for row in service.usage(client.api_key, "priority")}
    assert used == {"batch": 3, "standard": 2}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**chat(), extra_headers={"X-Priority": "first"})
    assert refused.value.param == "X-Priority"


def test_models_outside_the_key_s_list_do_not_exist_for_it(service: Operated) -> None:
    key = service.key(service.tenant(), models=["brief"])
    client = service.client(key["secret"], max_retries=2)
    assert [model.id for model in client.models.list().data] == ["brief"]
    for model in ("endless", "nothing-like-it"):
        with pytest.raises(openai.NotFoundError) as refused:
            client.chat.completions.create(**chat(model=model))
        body = problem(refused.value)
        assert body["type"] == "urn:forebay:problem:model-not-found"
        assert body["error"]["code"] == "model_not_found"
        assert body["error"]["param"] == "model"
        assert "Known models: brief." in body["detail"]
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve(model)
    assert client.chat.completions.create(**chat()).model == "brief"


def test_what_is_told_of_a_model(service: Operated) -> None:
    """Version, precision, window, and the least of the caller's limits; the price of its own class."""
    tenant = service.tenant(default_class="batch")
    key = service.key(tenant)
    service.quota(tenant, tokens_per_minute=9000, max_tokens=500, monthly_budget_usd="12.50")
    service.quota(tenant, alias="endless", tokens_per_minute=7000, requests_per_minute=600, concurrent_requests=3)
    service.quota(tenant, key=key["id"], requests_per_minute=60, max_tokens=400)
    (price,) = service.done("GET", "prices?model=endless")["data"]
    other = service.client(service.key(service.tenant(default_class="standard"))["secret"])

    told = service.client(key["secret"]).models.retrieve("endless").model_dump()
    assert told["version"] == "endless"
    assert told["precision"] == "f32"
    assert told["max_model_len"] == ENDLESS_WINDOW
    assert told["limits"] == {
        "tokens_per_minute": 7000,
        "requests_per_minute": 60,
        "concurrent_requests": 3,
        "max_tokens": 400,
        "monthly_budget_usd": "12.5",
    }
    assert told["pricing"] == {**ENDLESS_BATCH_PRICE, "price_version": price["id"]}
    listed = {model.id: model.model_dump() for model in service.client(key["secret"]).models.list().data}
    assert listed["endless"] == told
    assert "concurrent_requests" not in listed["brief"]["limits"]
    assert "pricing" not in other.models.retrieve("endless").model_dump()


def anthropic(service: Operated, secret: str, **more: Any) -> httpx.Response:
    """What Anthropic's client sends: the key in a header of its own."""
    body = {"model": "brief", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}], **more}
    with httpx.Client(base_url=service.process.root, timeout=60) as client:
        return client.post("/v1/messages", json=body, headers={"x-api-key": secret, "anthropic-version": "2023-06-01"})


def test_refusals_as_anthropic_s_clients_know_them(service: Operated) -> None:
    tenant = service.tenant()
    secret = service.key(tenant, models=["brief"])["secret"]
    blind = service.key(tenant, scopes=["usage"])["secret"]
    assert anthropic(service, secret).status_code == 200
    refusals = [
        (anthropic(service, "nobody"), 401, "authentication_error"),
        (anthropic(service, blind), 403, "permission_error"),
        (anthropic(service, secret, model="endless"), 404, "not_found_error"),
    ]
    service.quota(tenant, requests_per_minute=0, max_tokens=4)
    refusals.append((anthropic(service, secret), 400, "invalid_request_error"))
    refusals.append((anthropic(service, secret, max_tokens=4), 429, "rate_limit_error"))
    service.done("DELETE", f"quotas/{tenant}")
    service.quota(tenant, monthly_budget_usd=0)
    refusals.append((anthropic(service, secret), 402, "billing_error"))
    for answer, status, kind in refusals:
        assert answer.status_code == status, answer.text
        told = answer.json()
        assert told["type"] == "error"
        assert told["error"]["type"] == kind
        assert told["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert refusals[4][0].headers["x-should-retry"] == "false"
    assert refusals[5][0].headers["x-should-retry"] == "false"


def test_request_ids_are_taken_or_made_and_told_back(service: Operated) -> None:
    client = service.customer()
    made = client.chat.completions.with_raw_response.create(**chat())
    again = client.chat.completions.with_raw_response.create(**chat())
    assert made.headers["x-request-id"] != again.headers["x-request-id"]
    for _ in range(2):
        answer = client.chat.completions.with_raw_response.create(**chat(), extra_headers={"X-Request-Id": "mine-1"})
        assert answer.headers["x-request-id"] == "mine-1"
        assert answer.parse()._request_id == "mine-1"
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(**chat(model="nothing"), extra_headers={"X-Request-Id": "mine-2"})
    assert refused.value.request_id == "mine-2"
    unfit = client.chat.completions.with_raw_response.create(**chat(), extra_headers={"X-Request-Id": "not fit"})
    assert unfit.headers["x-request-id"].startswith("req-")
    assert service.requests(client.api_key) == 5
