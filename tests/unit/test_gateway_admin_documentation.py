"""What docs/admin.md says of fields and filters is what is taken."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forebay.administration.drafts import writable
from forebay.administration.kinds import KINDS, Kind
from forebay.administration.store import AuditEntry
from forebay.api.usage import FILTERS, GROUPS

DOCUMENT = Path(__file__).parents[2] / "docs" / "admin.md"


def section(heading: str) -> str:
    _, found, rest = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert found, f"docs/admin.md has no section {heading}"
    return rest.partition("\n## ")[0]


def rows(heading: str) -> Iterator[tuple[list[str], str]]:
    """The names in the first cell of each row, and the rest of it."""
    for line in section(heading).splitlines():
        if line.startswith("| `"):
            first, _, rest = line.strip("| ").partition(" | ")
            yield re.findall(r"`([\w:]+)`", first), rest


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_field_is_there_once_and_no_other(kind: Kind[Any]) -> None:
    written = [name for names, _ in rows(kind.name.capitalize()) for name in names]
    assert sorted(written) == sorted(writable(kind))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_required_is_said_to_be(kind: Kind[Any]) -> None:
    required = {field.name for field in msgspec.structs.fields(kind.type) if field.required}
    # The server knows what time it is.
    required -= {"effective_from"}
    said = {name for names, rest in rows(kind.name.capitalize()) if rest.endswith("required") for name in names}
    assert said == required & set(writable(kind))


def test_the_filters_of_lists() -> None:
    said = {name for names, _ in rows("Lists") for name in names} - {"limit", "after"}
    assert said == {name for kind in KINDS for name in kind.filters}


def test_the_audit_logs_fields() -> None:
    said = [name for names, _ in rows("Audit") for name in names]
    assert sorted(said) == sorted(AuditEntry.__struct_fields__)


def test_what_usage_takes() -> None:
    said = {tuple(names): rest for names, rest in rows("Usage")}
    assert set(said) == {("from",), ("to",), ("group_by",), (*FILTERS, "tag:NAME")}
    assert set(re.findall(r"`([\w:]+)`", said["group_by",])) >= {*GROUPS, "tag:NAME"}
