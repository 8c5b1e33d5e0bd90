"""The names that resources may refer to, as the gateway tells them: a wrong one is told before all else."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from forebay.cli.admin.api import AdminApi, AdminFailure
from forebay.cli.admin.plan import Change, Plan, State
from forebay.cli.admin.sections import SECTIONS, Fields
from forebay.config.checking import suggestion
from forebay.metering.pricing import ANY


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Aliases, and pools, which prices are for; None where the gateway does not tell them all."""

    aliases: Collection[str] | None
    pools: Collection[str] | None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Health(msgspec.Struct):
    pools: dict[str, Any]


async def read_known_names(api: AdminApi, state: State) -> KnownNames:
    """Raises AdminFailure where the gateway does not answer."""
    models: _Models | None = None
    # A key is told of the aliases alone that it may call, and which one is in use here is not known.
    if not any("admin" in key.fields["scopes"] and key.fields["models"] is not None for key in state["keys"]):
        models = await _told(api, "/v1/models", _Models)
    health: _Health | None = await _told(api, "/health", _Health)
    return KnownNames(models and [model.id for model in models.data], health and list(health.pools))


async def _told(api: AdminApi, path: str, type_: Any) -> Any:
    """None where something else than a whole gateway answers there, as a proxy for the Admin API alone may."""
    try:
        return msgspec.json.decode((await api.call("GET", path)).body, type=type_)
    except AdminFailure as failure:
        if failure.status is None:
            raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return None


def name_problems(plan: Plan, declared: Mapping[str, Sequence[Fields]], known: KnownNames) -> Iterator[str]:
    """Names that the plan would newly refer to and that are not there, each with its place in the file."""
    changes = {(change.kind, change.name): change for change in plan.changes if change.action != "delete"}
    for kind, entries in declared.items():
        for index, entry in enumerate(entries):
            if (change := changes.get((kind, SECTIONS[kind].name_of(entry)))) is not None:
                for field, name, what, names in _references(change, known):
                    if names is not None and name not in names:
                        said = suggestion(name, dict.fromkeys(names))
                        yield f"{kind}[{index}].{field}: there is no {what} {name}; {said}"


def _references(change: Change, known: KnownNames) -> Iterator[tuple[str, str, str, Collection[str] | None]]:
    """Field, name, what it is of, and those that there are. What was named before may stay."""
    if change.kind == "prices" and change.action == "create" and change.fields["model"] != ANY:
        yield "model", change.fields["model"], "pool", known.pools
    if change.kind == "quotas" and change.action == "create" and change.fields["alias"] is not None:
        yield "alias", change.fields["alias"], "alias", known.aliases
    if change.kind in {"keys", "prompts"}:
        before = change.old.get("models") or ()
        for index, alias in enumerate(change.fields.get("models") or ()):
            if alias not in before:
                yield f"models[{index}]", alias, "alias", known.aliases
