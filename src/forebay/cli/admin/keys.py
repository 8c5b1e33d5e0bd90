"""`forebay key …`."""

import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from forebay.administration.kinds import KEYS
from forebay.api.admin import MAX_OVERLAP_S
from forebay.cli.admin.api import AdminApi, Answer, resource_path
from forebay.cli.admin.calling import Via, calling
from forebay.cli.admin.inputs import duration_s, past, shown_time, tags_of, unix_time
from forebay.cli.admin.resources import change_resource, delete_resource, list_resources, show_resource
from forebay.cli.admin.secrecy import key_id_of
from forebay.cli.admin.tables import print_json
from forebay.core.errors import InvalidRequest
from forebay.tenancy.principal import Scope

KeyArgument = Annotated[str, Parameter(help="The key's id, as `forebay key list` shows it; not the key itself.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFlags:
    """What may be said of a key."""

    name: Annotated[str | None, Parameter(help="What people call it; unique in its tenant for `forebay apply`.")] = None
    scope: Annotated[tuple[Scope, ...] | None, Parameter(help="What it is for; may be repeated.", negative="")] = None
    model: Annotated[
        tuple[str, ...] | None, Parameter(help="An alias that it may call; may be repeated.", negative="")
    ] = None
    tag: Annotated[
        tuple[str, ...] | None, Parameter(help="NAME=VALUE, for cost reports; may be repeated.", negative="")
    ] = None
    expires: Annotated[str | None, Parameter(help="When it ends: a date or a time, in UTC, or `never`.")] = None

    def fields(self) -> dict[str, Any]:
        """Those of the API. Raises InvalidRequest."""
        found: dict[str, Any] = {"name": self.name, "scopes": self.scope, "models": self.model}
        found = {name: value for name, value in found.items() if value is not None}
        if self.tag is not None:
            found["tags"] = tags_of(self.tag, "--tag")
        if self.expires is not None:
            found["expires_at"] = None if self.expires == "never" else unix_time(self.expires, "--expires")
        return found


def create(
    tenant: Annotated[str, Parameter(help="The tenant that it belongs to.")],
    /,
    *,
    flags: KeyFlags | None = None,
    via: Via | None = None,
) -> int:
    """Create a key; its secret is printed now and never again."""
    body: dict[str, Any] = {"tenant": tenant, **(flags or KeyFlags()).fields()}
    if (expires_at := body.get("expires_at")) is not None and expires_at <= (now := time.time()):
        raise InvalidRequest(f"--expires: {past(expires_at, now)}")

    async def work(api: AdminApi, via: Via) -> None:
        same = await _named(api, tenant, body["name"]) if body.get("name") else []
        _tell_secret(via, await api.create(KEYS.name, body), "is created")
        if same:
            print(
                f"Note: {tenant} has another key {body['name']} ({', '.join(same)}). `forebay apply` cannot tell them "
                "apart: rename or delete one.",
                file=sys.stderr,
            )

    return calling(via, work)


def list_(
    *,
    tenant: Annotated[str | None, Parameter(help="Only those of this tenant.")] = None,
    via: Via | None = None,
) -> int:
    """List keys, without their secrets."""
    return list_resources(via, KEYS, {"tenant": tenant})


def show(key: KeyArgument, /, *, via: Via | None = None) -> int:
    """Show a key, without its secret."""
    return show_resource(via, KEYS, key_id_of(key))


def set_(
    key: KeyArgument,
    /,
    *,
    flags: KeyFlags | None = None,
    all_models: Annotated[bool, Parameter(help="It may call every alias.", negative="")] = False,
    remove_tag: Annotated[
        tuple[str, ...], Parameter(help="Name of a tag to take away; may be repeated.", negative="")
    ] = (),
    disabled: Annotated[bool | None, Parameter(help="It is refused.")] = None,
    via: Via | None = None,
) -> int:
    """Change what is given of a key: scopes and models are replaced as a whole, tags one by one."""
    patch = (flags or KeyFlags()).fields()
    if all_models:
        if "models" in patch:
            raise InvalidRequest("--model and --all-models: give one of the two.")
        patch["models"] = None
    if remove_tag:
        patch["tags"] = {**patch.get("tags", {}), **dict.fromkeys(remove_tag)}
    if disabled is not None:
        patch["disabled"] = disabled
    return change_resource(via, KEYS, key_id_of(key), patch)


def rotate(
    key: KeyArgument,
    /,
    *,
    overlap: Annotated[str, Parameter(help="How long the old secret works on: 90s, 30m, 24h, at most 30d.")] = "1h",
    via: Via | None = None,
) -> int:
    """Give a key a new secret, which is printed now and never again."""
    id_ = key_id_of(key)
    body = {"overlap_s": duration_s(overlap, "--overlap", MAX_OVERLAP_S // 86400)}

    async def work(api: AdminApi, via: Via) -> None:
        answer = await api.call("POST", resource_path(KEYS.name, id_) + "/rotate", body=body)
        until = shown_time(answer.row().get("previous_expires_at"), "now")
        _tell_secret(via, answer, f"is rotated; its old secret works until {until} UTC")

    return calling(via, work)


def revoke(key: KeyArgument, /, *, via: Via | None = None) -> int:
    """Delete a key: whoever uses it is refused from then on."""
    return delete_resource(via, KEYS, key_id_of(key))


async def _named(api: AdminApi, tenant: str, name: str) -> list[str]:
    """The ids of the tenant's keys of that name."""
    rows, _ = await api.rows(KEYS.name, {"tenant": tenant})
    return [row["id"] for row in rows if row.get("name") == name]


def _tell_secret(via: Via, answer: Answer, what: str) -> None:
    if via.json:
        print_json(answer.body)
        return
    row = answer.row()
    print(f"The key {row['id']} of {row['tenant']} {what}. Its secret is shown only now:\n")
    print(row["secret"])
