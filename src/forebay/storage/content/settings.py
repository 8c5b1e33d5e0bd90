"""Settings of what is kept of the tenants that opted in."""

from typing import Annotated

import msgspec


class ContentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prompts and outputs of tenants with `log_content`, and answers for repeats of those with `replay_outputs`."""

    redactor: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z", max_length=256)] | None = None
    """What sees prompts and outputs before they are kept, and may take out of them what must not be kept:
    `package.module:function`. `forebay.storage.content.redactors:emails_and_numbers` is one. None: kept as they are."""
    queue_mb: Annotated[float, msgspec.Meta(gt=0, le=4096)] = 64.0
    """Prompts and outputs that wait in memory for the object store, in MiB; what does not fit is not kept."""
    drain_timeout_s: Annotated[float, msgspec.Meta(ge=0, le=600)] = 10.0
    """How long a gateway that stops goes on keeping what waits."""
    sweep_interval_s: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 3600.0
    """How often it is looked for what is older than its tenant's retention."""
