"""`GET /v1/usage` and `GET /admin/v1/usage/records`: what is asked, and what comes out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from forebay.api.admin import page_size, read_query, suggestion
from forebay.api.decoding import bounded
from forebay.core.calendar import LAST_DAY, month_bounds, month_of
from forebay.core.errors import InvalidRequest

FILTERS = ("tenant", "key", "model", "alias", "model_version", "pool", "priority", "status")
GROUPS = (*FILTERS, "hour", "day", "month")
"""By what usage is told apart, beside `tag:NAME`."""
SYNONYMS: Mapping[str, str] = {"model": "alias"}
"""What clients call `model` is the name by which they ask for one."""
TAG = "tag:"
DEFAULT_GROUPS = ("model", "priority")
MAX_GROUPS = 8

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MONTH = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_UNIX = re.compile(r"\d{9,12}(?:\.\d{1,9})?", re.ASCII)
"""Nine digits at least: fewer are more likely a year than seconds of 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """Which requests: those that ended from `begins` on and before `ends` (Unix seconds), of which each of `where`
    (field → exact value) is so. `groups` is by what they are told apart. Names are those of `GROUPS`, and `tag:NAME`.
    """

    begins: float
    ends: float
    groups: tuple[str, ...]
    where: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsQuestion:
    """Which requests, as above: of these `limit` at most, those after the one of the id `after`."""

    begins: float
    ends: float
    where: Mapping[str, str]
    after: str | None
    limit: int


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer. Times in RFC 3339, amounts in nano-dollars and in decimal dollars.

    Each element of `data` has the members that `group_by` names, and those of `total`.
    """

    from_: str = msgspec.field(name="from")
    to: str
    group_by: Sequence[str]
    data: Sequence[Mapping[str, Any]]
    total: Mapping[str, Any]
    object: Literal["usage"] = "usage"


def read_usage_question(given: Iterable[tuple[str, str]], now: float) -> UsageQuestion:
    """From query parameters, at `now` (Unix seconds). Raises InvalidRequest."""
    query = read_query(given, ("from", "to", "group_by", *FILTERS), prefixes=(TAG,))
    begins, ends = _period(query, now)
    groups = _groups(query["group_by"]) if "group_by" in query else DEFAULT_GROUPS
    return UsageQuestion(begins=begins, ends=ends, groups=groups, where=_where(query))


def read_records_question(given: Iterable[tuple[str, str]], now: float) -> RecordsQuestion:
    """From query parameters, at `now` (Unix seconds). Raises InvalidRequest."""
    query = read_query(given, ("from", "to", "after", "limit", *FILTERS), prefixes=(TAG,))
    begins, ends = _period(query, now)
    return RecordsQuestion(
        begins=begins, ends=ends, where=_where(query), after=query.get("after"), limit=page_size(query)
    )


def _period(query: Mapping[str, str], now: float) -> tuple[float, float]:
    """From this month's beginning to now where they do not say. Raises InvalidRequest."""
    ends = read_time(query["to"], "to") if "to" in query else now
    begins = read_time(query["from"], "from") if "from" in query else month_bounds(month_of(now))[0]
    if begins >= ends:
        raise InvalidRequest(
            f"from: {told_time(begins)} is not before `to`, {told_time(ends)}, which is itself not counted: a month "
            "ends with the first of the next.",
            param="from",
        )
    return begins, ends


def _where(query: Mapping[str, str]) -> Mapping[str, str]:
    """Field → the value that it must have. Raises InvalidRequest."""
    where = {name: value for name, value in query.items() if name in FILTERS or is_tag(name)}
    if "model" in where and "alias" in where:
        raise InvalidRequest("alias: it is the same as `model`; give one of them.", param="alias")
    return where


def read_time(text: str, param: str) -> float:
    """Unix seconds of `YYYY-MM`, `YYYY-MM-DD` (both their beginning, UTC), RFC 3339 or Unix seconds.

    Raises InvalidRequest.
    """
    try:
        time = float(text) if _UNIX.fullmatch(text) else _date_time(text).timestamp()
    except ValueError:
        time = -1.0
    if not 0 <= time <= LAST_DAY:
        raise InvalidRequest(
            bounded(
                f"{param}: expected a time since 1970 such as 2026-11, 2026-11-01, 2026-11-01T12:00:00Z or 1793534400, "
                f"got {text!r}."
            ),
            param=param,
        )
    return time


def _date_time(text: str) -> datetime:
    """Raises ValueError."""
    if month := _MONTH.fullmatch(text):
        return datetime(int(month[1]), int(month[2]), 1, tzinfo=UTC)
    if _DAY.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    # In a query a plus sign that is not escaped arrives as a blank.
    time = datetime.fromisoformat(text.replace(" ", "+"))
    if time.tzinfo is None:
        raise ValueError("it does not say where that time is")
    return time


def told_time(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat().removesuffix("+00:00") + "Z"


def _groups(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in GROUPS and not is_tag(name):
            there = f"{suggestion(name, GROUPS)}, or tag:NAME"
            raise InvalidRequest(bounded(f"group_by: nothing is told apart by {name!r}; {there}."), param="group_by")
    if len({SYNONYMS.get(name, name) for name in names}) < len(names):
        raise InvalidRequest(bounded(f"group_by: one is there twice in {text!r}."), param="group_by")
    if len(names) > MAX_GROUPS:
        raise InvalidRequest(f"group_by: {len(names)} names are too many; {MAX_GROUPS} is the most.", param="group_by")
    return names


def is_tag(name: str) -> bool:
    """Whether it is of the form `tag:NAME`."""
    return name.startswith(TAG) and name != TAG
