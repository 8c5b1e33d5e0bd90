"""Carrying a plan out makes what is there what is declared, and then there is nothing left to do."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forebay.cli.admin.applying import patch_of
from forebay.cli.admin.plan import Change, Row, State, make_plan
from forebay.cli.admin.sections import SECTIONS, Fields

NOW = 1000.0
NAMES = st.sampled_from(["a", "b", "c"])
LIMITS = st.none() | st.integers(0, 3)
AMOUNTS = st.sampled_from([Decimal("0.1"), Decimal("0.10"), Decimal(2)])


def resources(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Fields]]:
    """Each at most once."""
    section = SECTIONS[kind]
    one = st.fixed_dictionaries(fields).map(lambda given: {**section.defaults, **given})
    return st.lists(one, max_size=6, unique_by=lambda each: tuple(each[name] for name in section.identity))


PLATFORMS = st.fixed_dictionaries(
    {
        "tenants": resources("tenants", id=NAMES, name=NAMES, canary=st.booleans()),
        "keys": resources("keys", tenant=NAMES, name=NAMES, tags=st.dictionaries(NAMES, NAMES, max_size=2)),
        "quotas": st.one_of(
            resources("quotas", tenant=NAMES, alias=st.none() | NAMES, tokens_per_minute=LIMITS),
            resources("quotas", tenant=NAMES, key=NAMES, max_tokens=LIMITS),
        ),
        "prices": resources(
            "prices",
            model=NAMES,
            effective_from=st.none() | st.sampled_from([10.0, 20.0, NOW, NOW + 5, NOW + 9]),
            prompt_usd_per_million=AMOUNTS,
            output_usd_per_million=AMOUNTS,
        ),
        "prompts": resources("prompts", id=NAMES, text=NAMES),
    }
)


class Platform:
    """What a platform becomes by changes: the Admin API's rules, without anything around them."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Row]] = {kind: {} for kind in SECTIONS}
        self._made = 0

    def state(self) -> State:
        return {kind: list(rows.values()) for kind, rows in self.rows.items()}

    def make(self, changes: Sequence[Change], now: float) -> None:
        for change in changes:
            rows = self.rows[change.kind]
            if change.action == "create":
                self._create(change.kind, change.fields, now)
                continue
            assert change.id is not None
            row = rows[change.id]
            assert row.revision == change.revision
            assert change.kind != "prices" or row.fields["effective_from"] > now, "it has begun"
            if change.action == "delete":
                self._require_unnamed(change.kind, row)
                del rows[change.id]
            else:
                rows[change.id] = Row(row.id, row.revision + 1, merged(row.fields, patch_of(change)))

    def _create(self, kind: str, fields: Fields, now: float) -> None:
        begun = {"effective_from": now} if fields.get("effective_from", 0) is None else {}
        fields = {**fields, **begun}
        identity = SECTIONS[kind].identity
        if kind in {"keys", "quotas"}:
            assert fields["tenant"] in self.rows["tenants"]
        if kind == "quotas" and fields["key"] is not None:
            assert any(
                (row.fields["tenant"], row.fields["name"]) == (fields["tenant"], fields["key"])
                for row in self.rows["keys"].values()
            )
        assert not any(all(row.fields[name] == fields[name] for name in identity) for row in self.rows[kind].values())
        self._made += 1
        id_ = fields.get("id", f"{kind}-{self._made}")
        self.rows[kind][id_] = Row(id_, 1, fields)

    def _require_unnamed(self, kind: str, row: Row) -> None:
        if kind == "tenants":
            assert all(
                each.fields["tenant"] != row.id for other in ("keys", "quotas") for each in self.rows[other].values()
            )
        if kind == "keys":
            owner = (row.fields["tenant"], row.fields["name"])
            assert all((each.fields["tenant"], each.fields["key"]) != owner for each in self.rows["quotas"].values())


def merged(fields: Fields, patch: Mapping[str, Any]) -> Fields:
    """RFC 7396."""
    result = dict(fields)
    for name, value in patch.items():
        if isinstance(value, dict):
            whole = {**result[name], **value}
            result[name] = {key: below for key, below in whole.items() if below is not None}
        else:
            result[name] = value
    return result


def key_of(kind: str, fields: Fields) -> tuple[Any, ...]:
    return tuple(fields[name] for name in SECTIONS[kind].identity)


@given(before=PLATFORMS, wanted=PLATFORMS)
def test_applying_a_plan_gives_what_is_declared_and_a_second_one_is_empty(
    before: dict[str, list[Fields]], wanted: dict[str, list[Fields]]
) -> None:
    platform = Platform()
    first = make_plan(before, platform.state(), now=NOW - 500, prune=True)
    if first.problems:
        return
    platform.make(first.changes, NOW - 499.5)

    plan = make_plan(wanted, platform.state(), now=NOW, prune=True)
    if plan.problems:
        return
    platform.make(plan.changes, NOW + 0.5)

    more = 0
    for kind, entries in wanted.items():
        there = {key_of(kind, row.fields): row.fields for row in platform.rows[kind].values()}
        more += 0 if kind == "prices" else len(there) - len(entries)
        for entry in entries:
            assert kind != "prices" or entry["effective_from"] is None or there[key_of(kind, entry)] == entry
    assert more == len(plan.kept)
    again = make_plan(wanted, platform.state(), now=NOW + 1, prune=True)
    assert (again.changes, again.problems) == ([], [])


@given(PLATFORMS, PLATFORMS)
def test_without_prune_nothing_goes(before: dict[str, list[Fields]], wanted: dict[str, list[Fields]]) -> None:
    platform = Platform()
    first = make_plan(before, platform.state(), now=NOW, prune=False)
    if first.problems:
        return
    platform.make(first.changes, NOW + 0.5)
    plan = make_plan(wanted, platform.state(), now=NOW + 1, prune=False)
    assert all(change.action != "delete" for change in plan.changes)
