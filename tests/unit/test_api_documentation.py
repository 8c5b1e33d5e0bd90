"""What is written about request fields is what the structs have."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from forebay.api.chat import CHAT_REFUSED, ChatCompletionRequest
from forebay.api.completions import COMPLETION_REFUSED, CompletionRequest
from forebay.api.generation import REFUSED
from forebay.api.messages import MESSAGES_REFUSED, MessagesRequest
from forebay.api.responses import RESPONSES_REFUSED, ResponsesRequest

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"
STATUSES = ("supported", "accepted", "refused")
_ROW = re.compile(r"\| `(\w+)` \| (\w+) \|")

Refused = Mapping[str, tuple[object, ...]]

SECTIONS: dict[str, tuple[type[msgspec.Struct], Refused]] = {
    "`POST /v1/chat/completions`": (ChatCompletionRequest, {**REFUSED, **CHAT_REFUSED}),
    "`POST /v1/completions`": (CompletionRequest, {**REFUSED, **COMPLETION_REFUSED}),
    "`POST /v1/responses`": (ResponsesRequest, RESPONSES_REFUSED),
    "`POST /v1/messages`": (MessagesRequest, MESSAGES_REFUSED),
}
"""Heading → the request's struct and what of it is refused."""


def rows(heading: str) -> Iterator[tuple[str, str]]:
    """Field and status of each row of a section's table."""
    _, found, rest = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert found, f"docs/api.md has no section {heading}"
    for line in rest.partition("\n## ")[0].splitlines():
        if row := _ROW.match(line):
            yield row[1], row[2]


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_field_is_there_once_and_no_other(heading: str) -> None:
    struct, _ = SECTIONS[heading]
    written = [field for field, _ in rows(heading)]
    assert sorted(written) == sorted(field.encode_name for field in msgspec.structs.fields(struct))


@pytest.mark.parametrize("heading", SECTIONS)
def test_what_is_refused_is_said_to_be(heading: str) -> None:
    _, refused = SECTIONS[heading]
    statuses = dict(rows(heading))
    assert set(statuses.values()) <= set(STATUSES)
    assert {field for field, status in statuses.items() if status == "refused"} == set(refused)
