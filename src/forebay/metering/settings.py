"""Settings of usage records: how they are written, kept and carried."""

from typing import Annotated, Literal

import msgspec

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]


class MeteringSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is written down of every request, and where it goes."""

    survive_power_loss: bool = True
    """Whether a request waits until the disk has its record. Without it a loss of power may cost the last moments'
    records; the death of a process never does."""
    open_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    """How long a request waits for the disk before it is refused."""
    sync_delay_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 0.2
    """How long after a request's end a loss of power may still cost its record."""
    seen_every_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 1.0
    """How often what running requests have used so far is written down: at most this much of a stream's output goes
    unbilled when the process that serves it is killed."""
    segment_mb: Annotated[float, msgspec.Meta(gt=0, le=1024)] = 16.0
    """Size at which a file of the local log is closed and goes on its way to the warehouse."""
    segment_age_s: Seconds = 300.0
    """Age at which it does so however small it is."""
    carrier: Literal["files", "nats"] = "files"
    """How records get from here to the warehouse: each gateway writes its own there, or NATS JetStream collects all."""
    nats_url: str | None = None
    """Where NATS is, such as `nats://nats.internal:4222`, for carrier = "nats"."""
    nats_stream: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")] = "forebay-usage"
    """The JetStream stream; made where it is not there."""
    nats_batch: Annotated[int, msgspec.Meta(ge=1, le=50_000)] = 5000
    """The most records that are taken from the stream into one file of the warehouse."""
    nats_batch_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    """How long records may wait in the stream for such a file to fill."""
    retention_days: Annotated[int, msgspec.Meta(ge=32, le=36500)] | None = None
    """How long usage is kept; at least the month that budgets are counted in. None: always."""
    query_memory_mb: Annotated[int, msgspec.Meta(ge=64, le=1_048_576)] = 256
    """The most memory that reports of usage may take; beyond it they use the disk."""
    cache_mb: Annotated[int, msgspec.Meta(ge=16, le=1_048_576)] = 1024
    """The most disk that usage fetched from remote object storage may take here."""
