"""What is there now, over the Admin API, as it is compared with what is declared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from forebay.cli.admin.api import AdminApi, AdminFailure
from forebay.cli.admin.plan import Row, State, key_labels
from forebay.cli.admin.sections import SECTIONS, Section, ordered


async def read_state(api: AdminApi) -> State:
    """All pages of all kinds. Raises AdminFailure."""
    told = {kind: (await api.rows(kind))[0] for kind in SECTIONS}
    return state_of(told)


def state_of(told: Mapping[str, Sequence[Mapping[str, Any]]]) -> State:
    """Kind → rows as the API tells them. Raises AdminFailure for what no such API says."""
    state = {kind: [_row(SECTIONS[kind], each) for each in rows] for kind, rows in told.items()}
    labels = key_labels(state["keys"])
    state["quotas"] = [
        replace(row, fields={**row.fields, "key": labels.get(key, key)}) if (key := row.fields["key"]) else row
        for row in state["quotas"]
    ]
    return state


def _row(section: Section, told: Mapping[str, Any]) -> Row:
    """What a newer gateway tells beside what is known here is passed over."""
    try:
        fields = {
            name: ordered(name, msgspec.convert(told.get(name, section.defaults.get(name)), type_, str_keys=True))
            for name, type_ in section.types.items()
        }
        return Row(msgspec.convert(told["id"], str), msgspec.convert(told["revision"], int), fields)
    except (KeyError, msgspec.ValidationError) as error:
        raise AdminFailure(
            "Not understood",
            f"the gateway tells of a {section.kind.noun} in a way that this command does not know ({error}); use the "
            "`forebay` of the gateway's own version.",
        ) from None
