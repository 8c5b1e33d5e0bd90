"""One replica as the fleet sees it."""

import asyncio
from dataclasses import dataclass

from forebay.fleet.choice import ReplicaSnapshot, ReplicaState


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how one replica is called. `base_url` ends in its API's `/v1`; `model` is the model's name there."""

    base_url: str
    model: str
    api_key: str | None
    takes_priority: bool
    """Understands vLLM's `priority` and `cache_salt`."""
    health_url: str
    tells_usage: bool = False
    """Keeps a book of what each request used, as our own engine does."""

    def __repr__(self) -> str:
        """Without the key, as this may end in a log."""
        return f"Endpoint({self.base_url}, model={self.model})"


class Replica:
    """One replica's state. Its supervisor sets the state; those who call it count themselves in and out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: ReplicaState = "starting"
        self.endpoint: Endpoint | None = None
        self.detail = "not started yet"
        self.outstanding = 0
        self.restarts = 0
        self.reachable = False
        self.max_model_len: int | None = None
        """Prompt plus output tokens, where it has told when it last became ready."""
        self.suspected = asyncio.Event()
        """Set when a request could not reach it, so that it is probed at once."""

    def suspect(self, why: str) -> None:
        """Stop choosing it until a probe succeeds."""
        self.reachable = False
        self.detail = why
        self.suspected.set()

    def snapshot(self) -> ReplicaSnapshot:
        return ReplicaSnapshot(self.name, self.state, self.reachable, self.outstanding, self.restarts, self.detail)
