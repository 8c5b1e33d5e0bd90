"""The request that a replica is sent."""

import json

from forebay.fleet.replica import Endpoint
from forebay.serving.request import InferenceRequest, outbound_body
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


def sent(*, takes_priority: bool, priority: PriorityName = "standard", body: bytes | None = None) -> dict[str, object]:
    request = InferenceRequest(
        route="chat/completions",
        alias="chat",
        stream=False,
        body=json.dumps(BODY).encode() if body is None else body,
        principal=Principal("acme", "k", frozenset({"standard"})),
        priority=priority,
    )
    endpoint = Endpoint("http://h/v1", "their-model", None, takes_priority, "http://h/health")
    return json.loads(outbound_body(request, endpoint))


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
