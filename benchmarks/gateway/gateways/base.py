"""What every gateway is."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from benchmarks.gateway.pinned_server import RunningServer

ALIAS = "chat"
"""What callers ask for; the upstream knows its model by another name, so every gateway has to rename."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Where things run: the gateway alone, and all else."""

    gateway: int
    rest: int


@dataclass(frozen=True, slots=True)
class Target:
    """What a load is sent to: directly the upstream, or a gateway. `helper` is a server that works for it elsewhere."""

    server: RunningServer
    headers: Mapping[str, str]
    helper: RunningServer | None = None


class Gateway(Protocol):
    """A gateway that can be prepared once, and started before the upstream at `port`."""

    @property
    def name(self) -> str: ...

    def prepare(self) -> dict[str, str]:
        """Install what is missing; the facts to print. Raises PeerUnavailableError where it cannot run here."""
        ...

    def running(self, upstream_port: int, cores: Cores) -> AbstractAsyncContextManager[Target]:
        """Started and tried once; gone when the context is left. Raises PeerFailedError."""
        ...
