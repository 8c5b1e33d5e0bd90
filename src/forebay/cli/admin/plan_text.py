"""A plan, as it is read before it is carried out and while it is."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.text import Text

from forebay.cli.admin.inputs import shown_time
from forebay.cli.admin.plan import Change, Plan
from forebay.cli.admin.sections import SECTIONS
from forebay.cli.admin.tables import NOTHING, listed, money, yes_no

MARKS = {"create": ("+", "green"), "change": ("~", "yellow"), "delete": ("-", "red")}
WORDS = {"create": "to create", "change": "to change", "delete": "to delete"}
DONE = {"create": "created", "change": "changed", "delete": "deleted"}
TIMES = {"expires_at": "never", "effective_from": "now"}


def print_plan(plan: Plan, console: Console) -> None:
    for change in plan.changes:
        console.print(change_text(change))
    for kept in plan.kept:
        console.print(Text(f"  kept: {kept}", style="dim"))
    console.print(("\n" if plan.changes or plan.kept else "") + summary(plan))


def summary(plan: Plan) -> str:
    counts = [f"{sum(change.action == action for change in plan.changes)} {words}" for action, words in WORDS.items()]
    unchanged = f"{sum(plan.unchanged.values())} unchanged"
    return ", ".join([*counts, unchanged]) + "." if plan.changes else f"Nothing to do: {unchanged}."


def change_text(change: Change) -> Text:
    """A line, and for a change one more for each field: old → new."""
    mark, style = MARKS[change.action]
    text = Text.assemble((f"{mark} {subject(change)}", style))
    if change.action == "change":
        for name, value in change.fields.items():
            before, after = _old_and_new(name, change.old[name], value)
            text.append(f"\n    {name}: {before} → {after}")
    elif change.action == "create":
        said = {name: value for name, value in change.fields.items() if _says_more(change, name, value)}
        if said:
            text.append("  " + ", ".join(f"{name}: {shown(name, value)}" for name, value in said.items()))
    return text


def subject(change: Change) -> str:
    return f"{SECTIONS[change.kind].kind.noun} {_name(change)}"


def plan_json(plan: Plan) -> Mapping[str, Any]:
    """`old` and `new` of each field that changes."""
    return {
        "object": "plan",
        "changes": [
            {
                "action": change.action,
                "kind": change.kind,
                "id": change.id,
                "name": change.name,
                "fields": {name: {"old": change.old.get(name), "new": value} for name, value in change.fields.items()},
            }
            for change in plan.changes
        ],
        "unchanged": dict(plan.unchanged),
        "kept": list(plan.kept),
        "problems": list(plan.problems),
    }


def shown(name: str, value: Any) -> str:
    """A field's value, in the words of the file."""
    if name in TIMES:
        return shown_time(value, TIMES[name])
    match value:
        case bool():
            text = yes_no(value)
        case Decimal():
            text = money(str(value))
        case dict():
            text = ", ".join(f"{key}={below}" for key, below in value.items()) or NOTHING
        case tuple():
            text = listed(value)
        case None:
            text = "all" if name == "models" else NOTHING
        case _:
            text = str(value) or NOTHING
    return text if name != "text" else f"{len(text):,} characters"


def _old_and_new(name: str, old: Any, new: Any) -> tuple[str, str]:
    before, after = shown(name, old), shown(name, new)
    return (before, after) if before != after else (before, f"{after}, not the same")


def _says_more(change: Change, name: str, value: Any) -> bool:
    """Whether a new resource's field is neither in its name nor what it is unless something else is said."""
    section = SECTIONS[change.kind]
    return name not in section.identity and value != section.defaults.get(name)


def _name(change: Change) -> str:
    """A time in a name is a time, not seconds."""
    identity: Sequence[str] = SECTIONS[change.kind].identity
    if "effective_from" not in identity or "effective_from" not in change.fields:
        return change.name if change.id is None or change.kind == "keys" else change.id
    fields = change.fields
    return f"{fields['model']} {fields['priority']} from {shown('effective_from', fields['effective_from'])}"
