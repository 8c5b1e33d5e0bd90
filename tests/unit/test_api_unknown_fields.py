"""The header that names what was not heeded."""

import json

import pytest

from forebay.api.tokenization import DetokenizeRequest
from forebay.api.unknown_fields import IGNORED_FIELDS_HEADER, MAX_NAME_CHARS, MAX_NAMES, ignored_fields_header


def named(fields: dict[str, object]) -> str | None:
    body = json.dumps({"tokens": [1]} | fields).encode()
    return ignored_fields_header(body, DetokenizeRequest).get(IGNORED_FIELDS_HEADER)


def test_where_all_are_known_there_is_none() -> None:
    assert named({}) is None
    assert named({"model": "m"}) is None


def test_only_the_top_level_counts() -> None:
    assert named({"a": {"b": 1}, "model": None, "c": [1]}) == "a, c"


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: x", "ü", "a,b", "\x00", "\ud83d\ude00", "\x7f"])
def test_a_name_cannot_break_out_of_the_header(name: str) -> None:
    value = named({name: 1})
    assert value is not None
    assert value.isascii()
    assert value.isprintable()
    assert "," not in value
    assert len(value) >= 1


def test_it_is_bounded() -> None:
    value = named({f"{index}".rjust(1000, "x"): 1 for index in range(100)})
    assert value is not None
    assert len(value) <= MAX_NAMES * (MAX_NAME_CHARS + 2) + 3
    assert value.endswith(", ...")
