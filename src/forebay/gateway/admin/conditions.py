"""ETags: the revision of a resource, in quotes."""

import re
from typing import Any

from litestar import Request

from forebay.administration.conditions import Condition
from forebay.core.errors import InvalidRequest

# A proxy that compresses answers marks their tags as weak; the revision is still the same.
_TAG = re.compile(r'(?:W/)?"(\d{1,18})"', re.ASCII)
_ANY = "*"


def etag(revision: int) -> str:
    return f'"{revision}"'


def condition_of(request: Request[Any, Any, Any]) -> Condition:
    """What `If-Match` and `If-None-Match` demand of a change. Raises InvalidRequest."""
    match = request.headers.get("if-match")
    none_match = request.headers.get("if-none-match")
    if none_match is not None and none_match.strip() != _ANY:
        raise InvalidRequest(
            "If-None-Match: only `*`, create and never change, can be said here.", param="If-None-Match"
        )
    if match is not None and match.strip() != _ANY:
        return Condition(revisions=_revisions("If-Match", match), absent=none_match is not None)
    return Condition(present=match is not None, absent=none_match is not None)


def is_unchanged(request: Request[Any, Any, Any], revision: int) -> bool:
    """Whether `If-None-Match` says that the caller has this revision. Raises InvalidRequest."""
    known = request.headers.get("if-none-match")
    if known is None:
        return False
    return known.strip() == _ANY or revision in _revisions("If-None-Match", known)


def _revisions(header: str, value: str) -> frozenset[int]:
    found = [_TAG.fullmatch(each.strip()) for each in value.split(",")]
    revisions = frozenset(int(each[1]) for each in found if each is not None)
    if len(revisions) == 0 or None in found:
        raise InvalidRequest(
            f'{header}: expected an ETag as it was sent, a revision in quotes such as "3", or *; got {value[:100]!r}.',
            param=header,
        )
    return revisions
