"""What is read from a streamed answer, and what of it its caller is told."""

import json
from typing import Any

import pytest

from forebay.api import sse
from forebay.core.errors import UpstreamFailed
from forebay.metering.usage import TokenUsage
from forebay.serving.stream_meter import StreamMeter

HEAD = {"id": "c-1", "object": "chat.completion.chunk", "created": 7, "model": "inner"}


def chunk(*texts: str, usage: tuple[int, int, int] | None = None, finish: str | None = None) -> bytes:
    fields: dict[str, Any] = dict(HEAD)
    fields["choices"] = [
        {"index": index, "delta": {"content": text}, "finish_reason": finish} for index, text in enumerate(texts)
    ]
    if usage is not None:
        prompt, cached, output = usage
        fields["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    return sse.event(json.dumps(fields).encode())


def events(told: bytes) -> list[Any]:
    parsed = sse.SseParser().feed(told)
    return [None if event.is_done else json.loads(event.data) for event in parsed]


STREAM = chunk("a", usage=(9, 4, 1)) + chunk("b", usage=(9, 4, 2), finish="stop") + chunk(usage=(9, 4, 2)) + sse.DONE


@pytest.mark.parametrize("cut", [1, 7, 64, len(STREAM)])
def test_the_last_usage_counts_however_the_bytes_come(cut: int) -> None:
    meter = StreamMeter(None, "none")
    for at in range(0, len(STREAM), cut):
        meter.feed(STREAM[at : at + cut])
    assert meter.tokens == TokenUsage(prompt_tokens=9, cached_tokens=4, output_tokens=2)
    assert meter.events == 2
    assert meter.ended


@pytest.mark.parametrize(("told", "with_usage"), [("none", []), ("last", [2]), ("all", [0, 1, 2])])
def test_a_caller_is_told_the_usage_that_it_asked_for(told: Any, with_usage: list[int]) -> None:
    heard = events(StreamMeter(None, told).feed(STREAM))
    assert heard.pop() is None
    assert len(heard) == (2 if told == "none" else 3)
    assert [index for index, event in enumerate(heard) if "usage" in event] == with_usage
    assert [event["choices"][0]["delta"]["content"] for event in heard[:2]] == ["a", "b"]


def test_the_alias_takes_the_place_of_the_replica_s_name() -> None:
    assert {event["model"] for event in events(StreamMeter("chat", "all").feed(STREAM)) if event} == {"chat"}


@pytest.mark.parametrize("cut", [1, 2, 7, 64])
def test_all_events_bear_the_alias_however_the_bytes_come(cut: int) -> None:
    meter = StreamMeter("ours/é", "all")
    told = b"".join(meter.feed(STREAM[at : at + cut]) for at in range(0, len(STREAM), cut))
    assert [event and event["model"] for event in events(told)] == ["ours/é"] * 3 + [None]


def test_a_text_completion_that_is_stopped_ends_as_one() -> None:
    meter = StreamMeter(None, "none")
    meter.feed(chunk("a").replace(b"chat.completion.chunk", b"text_completion") + chunk(usage=(5, 0, 1)))
    end, done = events(meter.stopped(1))
    assert (end["id"], end["choices"], done) == ("c-1", [{"index": 0, "text": "", "finish_reason": "length"}], None)
    assert meter.ended


def test_a_stream_that_is_stopped_ends_as_one_cut_for_length() -> None:
    meter = StreamMeter(None, "last")
    meter.feed(chunk("a", "b", usage=(5, 0, 2)) + chunk("c", finish="stop", usage=(5, 0, 3)))
    *choices, usage, done = events(meter.stopped(3))
    assert done is None
    assert [(each["choices"][0]["index"], each["choices"][0]["finish_reason"]) for each in choices] == [
        (1, "length"),
        (2, "length"),
    ]
    assert all(each["id"] == "c-1" and each["object"] == "chat.completion.chunk" for each in choices)
    assert usage["usage"]["completion_tokens"] == 3


def test_more_cached_than_prompt_tokens_are_not_believed() -> None:
    meter = StreamMeter(None, "none")
    meter.feed(chunk("a", usage=(5, 9, 1)))
    assert meter.tokens == TokenUsage(prompt_tokens=5, cached_tokens=5, output_tokens=1)


def test_an_error_in_the_stream_is_noticed_and_told() -> None:
    meter = StreamMeter(None, "none")
    failure = sse.event(b'{"error": {"message": "gone"}}')
    assert events(meter.feed(failure)) == [{"error": {"message": "gone"}}]
    assert meter.failed


@pytest.mark.parametrize("data", [b"[1]", b'{"usage": 3}', b'{"choices": [{"finish_reason": 1}]}'])
def test_what_is_no_chunk_of_a_completion_is_the_replica_s_failure(data: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        StreamMeter(None, "none").feed(sse.event(data))
