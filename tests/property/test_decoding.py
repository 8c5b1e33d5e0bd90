"""Whatever bytes come, a decoder gives a value or an error that is the client's."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.api.tokenization import DetokenizeRequest, TokenizeRequest
from forebay.core.errors import ForebayError

TYPES = [ChatCompletionRequest, CompletionRequest, TokenizeRequest, DetokenizeRequest]

FIELDS = sorted({field for type_ in TYPES for field in type_.__struct_fields__} | {"role", "content", "type", "text"})

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["user", "assistant", "text", "none", "m"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), below, max_size=4),
    max_leaves=12,
)
requests = st.builds(
    lambda base, more: base | more,
    st.fixed_dictionaries({"model": st.just("m"), "prompt": st.just("a") | values, "tokens": st.just([1]) | values}),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=5),
)


def decodes_or_blames_the_client(body: bytes, type_: type) -> None:
    try:
        decode(body, type_)
    except ForebayError as error:
        assert 400 <= error.status < 500
        assert error.detail


@pytest.mark.parametrize("type_", TYPES)
@given(body=st.binary(max_size=200))
@example(body=b'{"model": "\\ud800"}')
@example(body=b"[" * 10_000)
@example(body=b'{"messages": ' + b"[" * 10_000)
@example(body=b"9" * 10_000)
@example(body=b'{"seed": ' + b"9" * 10_000 + b"}")
@example(body=b'{"model": "m", "model": 1, "model": {}}')
@settings(max_examples=300, deadline=None)
def test_any_bytes(body: bytes, type_: type) -> None:
    decodes_or_blames_the_client(body, type_)


@given(request=requests, damage=st.none() | st.tuples(st.integers(0, 400), st.binary(max_size=3)))
@settings(max_examples=300, deadline=None)
def test_requests_with_wrong_values_and_damaged_ones(request: dict[str, Any], damage: tuple[int, bytes] | None) -> None:
    body = json.dumps(request).encode()
    if damage is not None:
        at, put = damage
        body = body[:at] + put + body[at + len(put) :]
    for type_ in TYPES:
        decodes_or_blames_the_client(body, type_)
