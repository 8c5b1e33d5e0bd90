"""The request that a replica is sent."""

import json

from forebay.fleet.replica import Endpoint
from forebay.serving.request import InferenceRequest, Repeat, outbound_body
from forebay.tenancy.principal import Principal, PriorityName

BODY = {
    "model": "chat",
    "priority": -100,
    "cache_salt": "someone else's",
    "messages": [{"role": "user", "content": "é\u2028", "priority": 1}],
    "seed": 2**60,
    "top_p": 0.1,
    "vendor_field": {"deep": [None, True]},
}
ACME = Principal(
    tenant_id="acme",
    key_id="k",
    scopes=frozenset({"inference"}),
    default_class="standard",
    allowed_classes=frozenset({"standard"}),
)


def sent(
    *,
    takes_priority: bool,
    priority: PriorityName = "standard",
    body: bytes | None = None,
    stream: bool = False,
    output_cap: int | None = None,
) -> dict[str, object]:
    request = InferenceRequest(
        id="req-1",
        request_id="mine",
        entrance="chat/completions",
        route="chat/completions",
        alias="chat",
        stream=stream,
        body=json.dumps(BODY).encode() if body is None else body,
        principal=ACME,
        priority=priority,
        arrived=0.0,
    )
    endpoint = Endpoint("http://h/v1", "their-model", None, takes_priority, "http://h/health")
    return json.loads(outbound_body(request, endpoint, output_cap=output_cap))


def test_unknown_fields_reach_the_replica_untouched() -> None:
    kept = {name: value for name, value in BODY.items() if name not in {"model", "priority", "cache_salt"}}
    assert sent(takes_priority=False) == kept | {"model": "their-model"}


def test_priority_and_salt_are_the_platform_s() -> None:
    for name, number in {"interactive": 0, "standard": 1, "batch": 2}.items():
        body = sent(takes_priority=True, priority=name)  # pyright: ignore[reportArgumentType]
        assert (body["priority"], body["cache_salt"]) == (number, "acme")


def test_a_field_sent_twice_does_not_get_past() -> None:
    body = sent(takes_priority=True, body=b'{"model": "a", "model": "b", "cache_salt": "x", "cache_salt": "y"}')
    assert body == {"model": "their-model", "priority": 1, "cache_salt": "acme"}


def test_a_stream_tells_its_usage_whatever_its_caller_asked_for() -> None:
    body = b'{"stream": true, "stream_options": {"include_usage": false, "theirs": 1}}'
    assert sent(takes_priority=False, stream=True, body=body)["stream_options"] == {"include_usage": True, "theirs": 1}
    assert sent(takes_priority=True, stream=True, body=b'{"stream": true}')["stream_options"] == {
        "include_usage": True,
        "continuous_usage_stats": True,
    }


def test_options_that_are_none_are_left_for_the_replica_to_refuse() -> None:
    assert sent(takes_priority=True, stream=True, body=b'{"stream_options": 7}')["stream_options"] == 7


def test_an_answer_is_cut_where_its_quota_ends() -> None:
    assert sent(takes_priority=False, output_cap=12)["max_tokens"] == 12
    assert "max_tokens" not in sent(takes_priority=False)


def test_repeats_are_known_by_tenant_key_entrance_and_body() -> None:
    first = Repeat.of("acme", "k", "completions", b"{}")
    assert Repeat.of("acme", "k", "completions", b"{}") == first
    assert Repeat.of("acm", "ek", "completions", b"{}").digest != first.digest
    for other in (Repeat.of("acme", "k", "messages", b"{}"), Repeat.of("acme", "k", "completions", b"{ }")):
        assert other.digest == first.digest
        assert other.fingerprint != first.fingerprint
