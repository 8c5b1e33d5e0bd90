"""What the Admin API takes and how it is read: strictly, so that a word that is misspelt is never passed over."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

import msgspec

from forebay.api.decoding import bounded, decode
from forebay.core.errors import InvalidRequest

MAX_OVERLAP_S = 30 * 86400
DEFAULT_OVERLAP_S = 3600.0
MAX_LIMIT = 1000
DEFAULT_LIMIT = 100

Fields = Mapping[str, msgspec.Raw]
"""A JSON object: field → its value as it was written."""


class RotateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`overlap_s`: how long, in seconds, the old secret works beside the new one."""

    overlap_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_OVERLAP_S)] = DEFAULT_OVERLAP_S


def read_fields(body: bytes) -> Fields:
    """The JSON object `body`. Raises what `api.decoding.decode` raises."""
    return decode(body, dict[str, msgspec.Raw])


def read_rotation(body: bytes) -> RotateRequest:
    """An empty body asks for the default. Raises what `api.decoding.decode` raises, InvalidRequest for other fields."""
    if not body.strip():
        return RotateRequest()
    require_known(read_fields(body), ("overlap_s",), "field")
    return decode(body, RotateRequest)


def read_query(
    given: Iterable[tuple[str, str]], known: Collection[str], *, prefixes: tuple[str, ...] = ()
) -> dict[str, str]:
    """Query parameters, each `known` (or of one of the `prefixes` and longer), once and not empty.

    Raises InvalidRequest.
    """
    read: dict[str, str] = {}
    for name, value in given:
        if not any(name.startswith(prefix) and name != prefix for prefix in prefixes):
            require_known((name,), known, "query parameter")
        if name in read:
            raise InvalidRequest(bounded(f"{name}: this query parameter is given twice; give it once."), param=name)
        if not value:
            raise InvalidRequest(bounded(f"{name}: this query parameter is empty; leave it out."), param=name)
        read[name] = value
    return read


def whole_number(query: Mapping[str, str], name: str, *, least: int, most: int) -> int | None:
    """A number of a query, None where it is not given. Raises InvalidRequest."""
    text = query.get(name)
    if text is None:
        return None
    # So many digits no bound has, and longer ones are slow to read.
    if not text.isascii() or not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
        raise InvalidRequest(
            bounded(f"{name}: expected a whole number of {least} to {most}, got {text!r}."), param=name
        )
    return int(text)


def page_size(query: Mapping[str, str]) -> int:
    """`limit`, or the default. Raises InvalidRequest."""
    return whole_number(query, "limit", least=1, most=MAX_LIMIT) or DEFAULT_LIMIT


def require_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    """Raises InvalidRequest, which names the first that is not known and what may have been meant."""
    for name in names:
        if name not in known:
            raise InvalidRequest(
                bounded(f"{name}: there is no such {what}; {suggestion(name, known)}."), param=bounded(name)
            )


def suggestion(name: str, known: Collection[str]) -> str:
    """What to write in place of `name`."""
    close = difflib.get_close_matches(name[:100], known, n=1)
    if close:
        return f"did you mean {close[0]}"
    return f"there are {', '.join(sorted(known))}" if known else "there are none"
