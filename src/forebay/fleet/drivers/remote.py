"""Replicas that someone else runs, known by their URL."""

import asyncio

from forebay.fleet.driver import Ending
from forebay.fleet.replica import Endpoint


class RemoteReplica:
    """A server that is not ours to start or stop: it is only probed and called."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    async def exited(self) -> Ending:
        """Never: only probes tell that it is gone."""
        return await asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        """Nothing to end."""


class RemoteDriver:
    """Stands for the one server at a URL."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def start(self, name: str) -> RemoteReplica:
        return RemoteReplica(self._endpoint)
