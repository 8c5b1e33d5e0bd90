"""Answers bear the name that was asked for."""

import json

import pytest

from forebay.core.errors import UpstreamFailed
from forebay.fleet.model_name import StreamRenamer, renamed

CHUNKS = [
    {"id": str(number), "model": "theirs", "x": {"model": "theirs"}, "text": 'say "model":"theirs"'}
    for number in range(3)
]
STREAM = (
    b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in CHUNKS) + b": still here\n\ndata: [DONE]\n\n"
)


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


@pytest.mark.parametrize("cut", [1, 2, 7, 64, 10_000])
def test_a_stream_is_renamed_however_the_network_cuts_it(cut: int) -> None:
    renamer = StreamRenamer("ours")
    out = b"".join(renamer.feed(STREAM[at : at + cut]) for at in range(0, len(STREAM), cut))
    events = out.decode().split("\n\n")
    assert [json.loads(event.removeprefix("data: ")) for event in events[:3]] == [
        chunk | {"model": "ours"} for chunk in CHUNKS
    ]
    assert events[3:] == ["data: [DONE]", ""]
