"""The local log's lines, cut off at any byte: what is whole before the cut is known, and nothing else."""

import tempfile
from pathlib import Path
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from forebay.metering.closing import closed
from forebay.metering.usage import OpenedUsage, TokenUsage
from forebay.storage.usage import lines
from forebay.storage.usage.inheritance import inherited
from forebay.storage.usage.tail import closed_records

Step = tuple[Literal["open", "see", "close", "void"], int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["open", "see", "close", "void"]), st.integers(0, 3)), min_size=1, max_size=15
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def opened(number: int, text: str) -> OpenedUsage:
    return OpenedUsage(
        id=f"u{number}",
        request_id=text,
        tenant="t",
        key="k",
        tags={text: text},
        alias=text,
        model_version="m",
        pool="p",
        priority="batch",
        route="/",
        stream=False,
        opened_at=0.0,
        prompt_tokens=1,
        fallback=False,
        price_version=None,
        prompt_nanos_per_million=1,
        cached_nanos_per_million=1,
        output_nanos_per_million=1,
    )


def line(step: Step, text: str, position: int) -> bytes:
    kind, number = step
    usage, used = opened(number, text), TokenUsage(prompt_tokens=1, cached_tokens=0, output_tokens=position)
    if kind == "open":
        return lines.opened_line(usage)
    if kind == "see":
        return lines.seen_line(lines.SeenUsage(usage.id, used, "r"))
    if kind == "void":
        return lines.void_line(usage.id)
    return lines.closed_line(
        usage, closed(usage, used, ended_at=1.0, status="completed", http_status=200, counted="engine")
    )


@given(STEPS, TEXT, st.data())
def test_a_log_that_is_cut_off_anywhere_tells_what_was_whole(steps: list[Step], text: str, data: st.DataObject):
    written = [line(step, text, position) for position, step in enumerate(steps)]
    content = b"".join(written)
    cut = data.draw(st.integers(0, len(content)))
    with tempfile.TemporaryDirectory() as folder:
        segment = Path(folder) / "00000001-a.log"
        segment.write_bytes(content[:cut])
        left = inherited([segment])
    whole, size = 0, 0
    while whole < len(steps) and size + len(written[whole]) <= cut:
        size += len(written[whole])
        whole += 1
    known = steps[:whole]
    ended = {number for kind, number in known if kind in {"close", "void"}}
    open_ones = {number for kind, number in known if kind == "open"} - ended
    assert {int(one.opened.id[1:]) for one, _ in left} == open_ones
    for one, _ in left:
        number = int(one.opened.id[1:])
        assert one.opened == opened(number, text)
        seen = [position for position, step in enumerate(known) if step == ("see", number)]
        assert (one.tokens.output_tokens if one.tokens else None) == (seen[-1] if seen else None)
    assert closed_records(content[:cut]).count(b"\n") == sum(kind == "close" for kind, _ in known)


@given(TEXT, st.data())
def test_a_byte_that_went_wrong_costs_its_line_alone(text: str, data: st.DataObject):
    written = [line(("close", number), text, number) for number in range(3)]
    content = bytearray(b"".join(written))
    at = data.draw(st.integers(len(written[0]), len(written[0]) + len(written[1]) - 2))
    content[at] ^= data.draw(st.integers(1, 255))
    left = closed_records(bytes(content)).splitlines()
    assert left == [written[0][11:-1], written[2][11:-1]]
