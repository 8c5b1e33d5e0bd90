"""What must be done so that what is becomes what is declared. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from forebay.cli.admin.inputs import past
from forebay.cli.admin.sections import SECTIONS, Fields, Section

Action = Literal["create", "change", "delete"]
OWN_TENANT = "it is the operator's own; delete it with `forebay tenant delete`"


@dataclass(frozen=True, slots=True)
class Row:
    """A resource that is there: its id and revision, and the fields that its section declares. A quota's `key` is, as
    in a file, the key's label.
    """

    id: str
    revision: int
    fields: Fields


State = Mapping[str, Sequence[Row]]
"""Kind → what is there. Every kind."""


@dataclass(frozen=True, slots=True)
class Change:
    """One call. `fields` are a new resource's, or those that change, with what they become; `old` what changed ones
    were. `id` and `revision` are those of what is there.
    """

    action: Action
    kind: str
    name: str
    fields: Fields = field(default_factory=dict[str, Any])
    old: Fields = field(default_factory=dict[str, Any])
    id: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """`changes` in an order in which each can be made. `unchanged`: kind → how many are as declared. `kept` says what
    is not declared and yet not deleted, and why. `problems` say why there is no plan; then nothing must be done.
    """

    changes: Sequence[Change]
    unchanged: Mapping[str, int]
    kept: Sequence[str] = ()
    problems: Sequence[str] = ()


def make_plan(
    declared: Mapping[str, Sequence[Fields]], state: State, *, now: float, prune: bool, own_tenant: str | None = None
) -> Plan:
    """`now` in Unix seconds. With `prune`, what is there of the declared kinds and is not declared is deleted, but for
    prices that have begun, keys of the scope admin and `own_tenant`, which is the operator's (nobody shall lock himself
    out), and what others that stay name.
    """
    comparisons = {
        kind: _Comparison(section, declared[kind], state[kind], now)
        for kind, section in SECTIONS.items()
        if kind in declared
    }
    changes = [change for comparison in comparisons.values() for change in comparison.changes]
    problems = [problem for comparison in comparisons.values() for problem in comparison.problems]
    kept: list[str] = []
    if prune:
        deletions, kept = _deletions(comparisons, state, now, own_tenant)
        changes += deletions
    problems += _lost_owners(declared, state, changes)
    unchanged = {kind: comparison.unchanged for kind, comparison in comparisons.items()}
    return Plan(changes, unchanged, kept, problems)


class _Comparison:
    """One kind, declared and there."""

    def __init__(self, section: Section, entries: Sequence[Fields], rows: Sequence[Row], now: float) -> None:
        self.changes: list[Change] = []
        self.problems: list[str] = []
        self.unchanged = 0
        self.others: list[Row] = []
        """What is there and not declared."""
        self._section = section
        self._now = now
        there: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            there.setdefault(self._identity(row.fields), []).append(row)
        dated = [entry for entry in entries if entry.get("effective_from", "") is not None]
        for index, entry in enumerate(entries):
            found = there.pop(self._identity(entry), [])
            if entry.get("effective_from", "") is not None:
                self._compare(index, entry, found)
            else:
                self._compare_price_of_now(entry, rows, dated)
        self.others = [row for found in there.values() for row in found]

    def _identity(self, fields: Fields) -> tuple[Any, ...]:
        return tuple(fields[name] for name in self._section.identity)

    def _compare(self, index: int, entry: Fields, found: Sequence[Row]) -> None:
        if not found:
            expires_at = entry.get("expires_at")
            if expires_at is not None and expires_at <= self._now:
                self.problems.append(f"{self._section.kind.name}[{index}].expires_at: {past(expires_at, self._now)}")
            else:
                self._create(entry)
            return
        name, kind = self._section.name_of(entry), self._section.kind.name
        if len(found) > 1:
            ids = ", ".join(row.id for row in found)
            self.problems.append(
                f"{kind}[{index}]: there are several {kind} {name} ({ids}); rename or delete all but one."
            )
            return
        row = found[0]
        changed = [field for field in self._section.types if entry[field] != row.fields[field]]
        if not changed:
            self.unchanged += 1
        elif kind == "prices" and row.fields["effective_from"] <= self._now:
            self.problems.append(
                f"{kind}[{index}]: {row.id} has begun and stays as it is; leave effective_from out, for a price from "
                "now on, or name a later time."
            )
        else:
            old = {field: row.fields[field] for field in changed}
            new = {field: entry[field] for field in changed}
            self.changes.append(Change("change", kind, name, new, old, row.id, row.revision))

    def _compare_price_of_now(self, entry: Fields, rows: Sequence[Row], dated: Sequence[Fields]) -> None:
        """A price without a beginning is the one that holds now: a new one begins where another does."""
        candidates = [
            fields
            for fields in [*(row.fields for row in rows), *dated]
            if fields["effective_from"] <= self._now
            and all(fields[name] == entry[name] for name in ("model", "priority"))
        ]
        holding = max(candidates, key=lambda fields: fields["effective_from"], default=None)
        if holding is not None and {**holding, "effective_from": None} == entry:
            self.unchanged += 1
        else:
            self._create(entry)

    def _create(self, entry: Fields) -> None:
        self.changes.append(Change("create", self._section.kind.name, self._section.name_of(entry), entry))


def _deletions(
    comparisons: Mapping[str, _Comparison], state: State, now: float, own_tenant: str | None
) -> tuple[list[Change], list[str]]:
    """The last first: what names others goes before them."""
    changes: list[Change] = []
    kept: list[str] = []
    gone: set[tuple[str, str]] = set()
    for kind in reversed([kind for kind in SECTIONS if kind in comparisons]):
        for row in comparisons[kind].others:
            if kind == "prices" and row.fields["effective_from"] <= now:
                continue
            why = OWN_TENANT if kind == "tenants" and row.id == own_tenant else _why_kept(kind, row, state, gone)
            name = SECTIONS[kind].name_of(row.fields)
            if why is not None:
                kept.append(f"{SECTIONS[kind].kind.noun} {name} ({row.id}): {why}")
                continue
            gone.add((kind, row.id))
            changes.append(Change("delete", kind, name, id=row.id, revision=row.revision))
    return changes, kept


def _why_kept(kind: str, row: Row, state: State, gone: set[tuple[str, str]]) -> str | None:
    if kind == "keys":
        if "admin" in row.fields["scopes"]:
            return "it may operate the platform; delete it with `forebay key delete`"
        owner = (row.fields["tenant"], key_labels(state["keys"])[row.id])
        left = [
            quota.id
            for quota in state["quotas"]
            if (quota.fields["tenant"], quota.fields["key"]) == owner and ("quotas", quota.id) not in gone
        ]
        return f"the quota {left[0]} is for it" if left else None
    if kind == "tenants":
        for other in ("keys", "quotas"):
            left = [
                each.id for each in state[other] if each.fields["tenant"] == row.id and (other, each.id) not in gone
            ]
            if left:
                return f"of its {other} there is still {left[0]}"
    return None


def key_labels(keys: Sequence[Row]) -> Mapping[str, str]:
    """Key id → what a file calls the key within its tenant: its name, where no other there has it, else its id."""
    count = Counter((row.fields["tenant"], row.fields["name"]) for row in keys)
    return {
        row.id: name if (name := row.fields["name"]) and count[row.fields["tenant"], name] == 1 else row.id
        for row in keys
    }


def _lost_owners(declared: Mapping[str, Sequence[Fields]], state: State, changes: Sequence[Change]) -> list[str]:
    """Keys and quotas of a tenant, and quotas of a key, that will not be there."""
    gone = {(change.kind, change.id) for change in changes if change.action == "delete"}
    tenants = {row.id for row in state["tenants"] if ("tenants", row.id) not in gone}
    tenants |= {entry["id"] for entry in declared.get("tenants", ())}
    labels = key_labels(state["keys"])
    keys = {(row.fields["tenant"], labels[row.id]) for row in state["keys"] if ("keys", row.id) not in gone}
    keys |= {(entry["tenant"], entry["name"]) for entry in declared.get("keys", ())}
    problems: list[str] = []
    for kind in ("keys", "quotas"):
        for index, entry in enumerate(declared.get(kind, ())):
            if entry["tenant"] not in tenants:
                problems.append(f"{kind}[{index}].tenant: there is no tenant {entry['tenant']}; declare it as well.")
            elif entry.get("key") is not None and (entry["tenant"], entry["key"]) not in keys:
                problems.append(
                    f"{kind}[{index}].key: {entry['tenant']} has no key {entry['key']}; declare it as well, under keys."
                )
    return problems
