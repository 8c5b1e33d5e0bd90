"""What the fleet needs of whatever runs replicas."""

from typing import Protocol

from forebay.fleet.replica import Endpoint


class ReplicaStartError(Exception):
    """A replica did not come up; the message says why and carries the end of its log.

    `permanent` says that it will not come up by trying again: its settings or its model are wrong.
    """

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent


class RunningReplica(Protocol):
    """A replica that was started."""

    @property
    def endpoint(self) -> Endpoint: ...

    async def exited(self) -> str:
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
