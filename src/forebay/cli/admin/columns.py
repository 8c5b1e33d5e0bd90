"""What is shown of each kind of resource."""

from collections.abc import Sequence
from typing import Any

from forebay.cli.admin.inputs import shown_time
from forebay.cli.admin.tables import NOTHING, Column, amount, limit, listed, money, yes_no

OPT_INS = {
    "allow_fallback": "fallback",
    "canary": "canary",
    "log_content": "content log",
    "replay_outputs": "replay",
}
BEGINNING = 32
"""Characters of a prompt's text that a list shows."""
DAY = len("2026-12-01")

TIMES = {
    "expires_at": "never",
    "last_used_at": "never",
    "previous_expires_at": NOTHING,
    "effective_from": NOTHING,
    "updated_at": NOTHING,
    "created_at": NOTHING,
}
"""Fields that are Unix seconds, and what None means."""


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return NOTHING if value is None or value == "" else str(value)


def _opt_ins(row: dict[str, Any]) -> str:
    return ", ".join(word for field, word in OPT_INS.items() if row.get(field)) or NOTHING


def _state(row: dict[str, Any]) -> str:
    return "disabled" if row.get("disabled") else "enabled"


def _key_state(row: dict[str, Any]) -> str:
    if row.get("disabled") or row.get("expires_at") is None:
        return _state(row)
    return f"until {shown_time(row['expires_at'], '')[:DAY]}"


def _beginning(row: dict[str, Any]) -> str:
    text = " ".join(str(row.get("text", "")).split())
    return text if len(text) <= BEGINNING else text[:BEGINNING] + "…"


COLUMNS: dict[str, Sequence[Column]] = {
    "tenants": (
        Column("id", lambda row: row["id"]),
        Column("name", lambda row: _text(row, "name")),
        Column("class", lambda row: _text(row, "default_class")),
        Column("up to", lambda row: _text(row, "highest_class")),
        Column("opted in to", _opt_ins),
        Column("state", _state),
    ),
    "keys": (
        Column("id", lambda row: row["id"]),
        Column("tenant", lambda row: _text(row, "tenant")),
        Column("name", lambda row: _text(row, "name")),
        Column("last used", lambda row: shown_time(row.get("last_used_at"), "never")[:DAY]),
        Column("state", _key_state),
    ),
    "quotas": (
        Column("id", lambda row: row["id"]),
        Column("tokens / min", lambda row: limit(row.get("tokens_per_minute")), "right"),
        Column("requests / min", lambda row: limit(row.get("requests_per_minute")), "right"),
        Column("at once", lambda row: limit(row.get("concurrent_requests")), "right"),
        Column("max tokens", lambda row: limit(row.get("max_tokens")), "right"),
        Column("budget / month", lambda row: money(row.get("monthly_budget_usd")), "right"),
    ),
    # The id says the model, the class and the beginning.
    "prices": (
        Column("id", lambda row: row["id"]),
        Column("prompt USD/1M", lambda row: amount(row.get("prompt_usd_per_million")), "right"),
        Column("cached USD/1M", lambda row: amount(row.get("cached_usd_per_million")), "right"),
        Column("output USD/1M", lambda row: amount(row.get("output_usd_per_million")), "right"),
    ),
    "prompts": (
        Column("id", lambda row: row["id"]),
        Column("models", lambda row: listed(row.get("models"), "all")),
        Column("characters", lambda row: limit(len(row.get("text", ""))), "right"),
        Column("text", _beginning),
    ),
    "audit": (
        Column("number", lambda row: str(row["number"]), "right"),
        Column("at", lambda row: shown_time(row.get("at"), NOTHING)),
        Column("by", lambda row: _text(row, "actor")),
        Column("did", lambda row: _text(row, "action")),
        Column("kind", lambda row: _text(row, "kind")),
        Column("id", lambda row: _text(row, "id")),
        Column("fields", lambda row: ", ".join(changed_fields(row)) or NOTHING),
    ),
}


def changed_fields(entry: dict[str, Any]) -> list[str]:
    """Of an audit entry that changed something that is still there: the fields that it changed."""
    before, after = entry.get("before"), entry.get("after")
    if not before or not after:
        return []
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def record_of(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Every field of a row with its value, as people read them."""
    return [(name, _shown(name, value)) for name, value in row.items() if name != "object"]


def _shown(name: str, value: Any) -> str:
    if name in TIMES:
        return shown_time(value, TIMES[name])
    if name.endswith(("_usd", "_usd_per_million")):
        return money(value)
    if name == "models":
        return listed(value, "all")
    match value:
        case bool():
            text = yes_no(value)
        case int():
            text = limit(value)
        case dict():
            text = ", ".join(f"{key}={below}" for key, below in value.items())
        case list():
            text = listed([str(each) for each in value])
        case _:
            text = "" if value is None else str(value)
    return text or NOTHING
