"""What every peer is."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from benchmarks.engine.plan import Kind
from benchmarks.engine.streams import Endpoint


class Peer(Protocol):
    """An engine that can be prepared once and started for each block of measurements."""

    @property
    def name(self) -> str:
        """Short, for the command line and the columns."""
        ...

    @property
    def loads(self) -> frozenset[Kind]:
        """The loads it is measured under."""
        ...

    def prepare(self) -> dict[str, str]:
        """Download and build what is missing; the facts to print: versions, settings, formats.

        Raises PeerUnavailableError where the peer cannot run on this machine.
        """
        ...

    def running(self) -> AbstractAsyncContextManager[Endpoint]:
        """Start the engine, alone on the machine; it is gone when the context is left.

        Raises PeerFailedError when it does not come up.
        """
        ...
