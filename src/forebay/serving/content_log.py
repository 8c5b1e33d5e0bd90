"""What tenants asked and were answered: kept only of those that opted in to it."""

from typing import Protocol

import msgspec


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a tenant that opted in. `id` is its usage record's; time in Unix seconds. `asked` is the JSON body
    as the pools know it, `answered` the parts of the answer: one JSON body, or the events of a stream.
    """

    id: str
    request_id: str
    tenant: str
    key: str
    alias: str
    at: float
    asked: bytes
    answered: list[bytes]


class ContentLog(Protocol):
    """Keeps it for as long as its tenant said."""

    def keep(self, content: Content) -> None:
        """Never waits and never raises: what cannot be kept is lost, and that is logged."""
        ...
