"""One replica as the fleet sees it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ReplicaState = Literal["starting", "ready", "draining", "gone"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how one replica is called. `base_url` ends in its API's `/v1`; `model` is the model's name there."""

    base_url: str
    model: str
    api_key: str | None
    takes_priority: bool
    """Understands vLLM's `priority` and `cache_salt`."""
    health_url: str

    def __repr__(self) -> str:
        """Without the key, as this may end in a log."""
        return f"Endpoint({self.base_url}, model={self.model})"


@dataclass(frozen=True, slots=True)
class ReplicaSnapshot:
    """What choosing and reporting need to know of a replica."""

    name: str
    state: ReplicaState
    reachable: bool
    outstanding: int
    restarts: int
    detail: str
    """Why it is not ready; empty when it is."""


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
        self.suspected = asyncio.Event()
        """Set when a request could not reach it, so that it is probed at once."""

    def suspect(self, why: str) -> None:
        """Stop choosing it until a probe succeeds."""
        self.reachable = False
        self.detail = why
        self.suspected.set()

    def snapshot(self) -> ReplicaSnapshot:
        return ReplicaSnapshot(self.name, self.state, self.reachable, self.outstanding, self.restarts, self.detail)


def choose(replicas: Sequence[ReplicaSnapshot], excluded: frozenset[str]) -> int | None:
    """The index of the ready replica with the least outstanding requests, or None; the first of equals."""
    candidates = [
        (replica.outstanding, index)
        for index, replica in enumerate(replicas)
        if replica.state == "ready" and replica.reachable and replica.name not in excluded
    ]
    return min(candidates)[1] if candidates else None
