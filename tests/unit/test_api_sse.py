"""Server-sent events, written and read."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.api import sse
from forebay.api.sse import SseEvent, SseParser
from forebay.core.errors import CapacityUnavailable, UpstreamFailed


def parse(text: bytes) -> list[SseEvent]:
    return SseParser().feed(text)


def test_what_is_written_is_read_again() -> None:
    stream = sse.event(b'{"a": 1}') + sse.comment("still here") + sse.event(b"2") + sse.DONE
    events = parse(stream)
    assert [event.data for event in events] == [b'{"a": 1}', b"2", b"[DONE]"]
    assert [event.is_done for event in events] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\n", [b"a"]),
        (b"data: a\r\r", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"data: a\n", []),
        (b": comment\n\n", []),
        (b"event: ping\n\ndata: a\n\n", [b"a"]),
        (b"id: 7\nretry: 10\nunknown: x\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
    ],
)
def test_the_standards_grammar(text: bytes, data: list[bytes]) -> None:
    assert [event.data for event in parse(text)] == data


def test_the_name_of_an_event_is_its_own_only() -> None:
    assert parse(b"event: error\ndata: a\n\ndata: b\n\n") == [SseEvent(b"a", "error"), SseEvent(b"b")]


@given(
    data=st.lists(st.text("ab: \u00e9\U0001f600", max_size=8), min_size=1, max_size=5),
    end=st.sampled_from(["\n", "\r", "\r\n"]),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    bom=st.booleans(),
)
def test_events_are_the_same_wherever_the_network_cuts(data: list[str], end: str, cuts: list[int], bom: bool) -> None:
    stream = ("\ufeff" if bom else "").encode() + "".join(f"data: {each}{end}{end}" for each in data).encode()
    points = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    parser = SseParser()
    events = [event for begin, stop in pairwise(points) for event in parser.feed(stream[begin:stop])]
    assert [event.data.decode() for event in events] == data


def test_an_event_is_told_with_its_last_byte() -> None:
    parser = SseParser()
    stream = b"data: a\r\n\r\n"
    told = [len(parser.feed(stream[index : index + 1])) for index in range(len(stream))]
    assert told.index(1) == len(stream) - 2, "the second CR already ends the event"
    assert sum(told) == 1


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 100, b"data: x\n" * 40])
def test_an_endless_event_is_refused(chunk: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        SseParser(max_event_bytes=64).feed(chunk)


def test_an_error_event_carries_openais_object() -> None:
    (event,) = parse(sse.error_event(CapacityUnavailable("full", retry_after_s=1)))
    assert json.loads(event.data) == {
        "error": {"message": "full", "type": "server_error", "param": None, "code": "capacity_unavailable"}
    }
