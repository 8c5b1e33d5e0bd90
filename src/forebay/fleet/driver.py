"""What the fleet needs of whatever runs replicas."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from forebay.fleet.replica import Endpoint


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a replica's log is, and its last lines."""

    file: Path
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a replica is gone, in one line, and what it wrote, where that is known."""

    reason: str
    log: LogEnd | None = None


class ReplicaStartError(Exception):
    """A replica did not come up; the message says why, in one line.

    `permanent` says that it will not come up by trying again: its settings or its model are wrong.
    """

    def __init__(self, message: str, *, permanent: bool, log: LogEnd | None = None) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.log = log


class RunningReplica(Protocol):
    """A replica that was started."""

    @property
    def endpoint(self) -> Endpoint: ...

    async def exited(self) -> Ending:
        """Wait until it is gone; returns why."""
        ...

    async def stop(self) -> None:
        """End it and wait until it is gone. May be called after it has gone."""
        ...


class PoolDriver(Protocol):
    """Starts the replicas of one pool."""

    async def start(self, name: str) -> RunningReplica:
        """Start the replica `name` and return when it has an address; nothing is left behind if this is cancelled.

        Raises ReplicaStartError.
        """
        ...
