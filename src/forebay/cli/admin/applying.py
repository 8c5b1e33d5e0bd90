"""Makes the changes of a plan, one after the other."""

from collections.abc import Callable, Mapping
from typing import Any

from forebay.cli.admin.api import AdminApi, Row
from forebay.cli.admin.plan import Change, Plan, State, key_labels

Told = Callable[[Change, Row | None], None]
"""Called after each change, with the resource as it is now; None where it was deleted."""


async def apply_plan(api: AdminApi, plan: Plan, state: State, told: Told) -> None:
    """Each change demands the revision that the plan was made for. Raises AdminFailure at the first that fails."""
    labels = key_labels(state["keys"])
    key_ids = {(row.fields["tenant"], labels[row.id]): row.id for row in state["keys"]}
    for change in plan.changes:
        told(change, await _make(api, change, key_ids))


async def _make(api: AdminApi, change: Change, key_ids: dict[tuple[str, str], str]) -> Row | None:
    """Notes in `key_ids` the keys that it creates, so that quotas for them can be."""
    if change.action == "create":
        row = (await api.create(change.kind, _new(change, key_ids))).row()
        if change.kind == "keys":
            key_ids[row["tenant"], row["name"]] = row["id"]
        return row
    assert change.id is not None, "what is changed or deleted is there"
    if change.action == "change":
        return (await api.change(change.kind, change.id, patch_of(change), expected=change.revision)).row()
    await api.delete(change.kind, change.id, expected=change.revision)
    return None


def _new(change: Change, key_ids: Mapping[tuple[str, str], str]) -> Mapping[str, Any]:
    fields = {name: value for name, value in change.fields.items() if value is not None}
    if change.kind == "quotas" and "key" in fields:
        fields["key"] = key_ids[fields["tenant"], fields["key"]]
    return fields


def patch_of(change: Change) -> Mapping[str, Any]:
    """As a JSON merge patch, in which a map's members that go are null."""
    return {
        name: {**dict.fromkeys(change.old[name]), **value} if isinstance(value, dict) else value
        for name, value in change.fields.items()
    }
