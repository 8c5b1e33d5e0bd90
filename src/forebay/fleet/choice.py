"""Which replica takes a request. Pure: it sees a snapshot and returns an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ReplicaState = Literal["starting", "ready", "draining", "gone"]


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


def choose(replicas: Sequence[ReplicaSnapshot], excluded: frozenset[str]) -> int | None:
    """The index of the ready replica with the least outstanding requests, or None; the first of equals."""
    candidates = [
        (replica.outstanding, index)
        for index, replica in enumerate(replicas)
        if replica.state == "ready" and replica.reachable and replica.name not in excluded
    ]
    return min(candidates)[1] if candidates else None
