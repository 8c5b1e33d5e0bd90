"""Answers bear the name that was asked for."""

import json

import pytest

from forebay.core.errors import UpstreamFailed
from forebay.serving.model_name import renamed

DEEP = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def test_only_the_model_changes() -> None:
    answer = {"id": "1", "model": "theirs", "n": 1.10, "big": 12345678901234567890123, "deep": {"model": "theirs"}}
    assert json.loads(renamed(json.dumps(answer).encode(), "ours/é")) == answer | {"model": "ours/é"}


def test_an_answer_without_a_model_stays_as_it_is() -> None:
    assert json.loads(renamed(b'{"error": {"message": "no"}}', "ours")) == {"error": {"message": "no"}}


@pytest.mark.parametrize(
    "garbage", [b"", b"<html>", b"[1]", b'{"model": "x"', b"\xff\xfe", b'{"a": "\xff"}', b'{"a": nope}', DEEP]
)
def test_garbage_is_the_replica_s_failure(garbage: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        renamed(garbage, "ours")
