"""Whole answers in the object store, for repeats with the same `Idempotency-Key`."""

import asyncio
from collections.abc import Callable

import msgspec

from forebay.storage.content.places import put_private, replay_path
from forebay.storage.objects.store import ObjectStore


class _Shelved(msgspec.Struct, frozen=True):
    """`at` in Unix seconds."""

    at: float
    answer: bytes


_shelved = msgspec.msgpack.Decoder(_Shelved)


class ObjectAnswerShelf:
    """An `AnswerShelf`. Answers count for `ttl_s` only, whether or not they are deleted by then: after that the same
    key may stand for another request.
    """

    def __init__(self, objects: ObjectStore, ttl_s: float, unix_time: Callable[[], float]) -> None:
        self._objects = objects
        self._ttl_s = ttl_s
        self._unix_time = unix_time

    async def put(self, tenant_id: str, digest: str, answer: bytes) -> None:
        """Raises StoreUnavailable."""
        data = msgspec.msgpack.encode(_Shelved(self._unix_time(), answer))
        await asyncio.to_thread(put_private, self._objects, replay_path(tenant_id, digest), data)

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        """None where it is not kept any more. Raises StoreUnavailable."""
        data = await asyncio.to_thread(self._objects.get, replay_path(tenant_id, digest))
        if data is None:
            return None
        try:
            shelved = _shelved.decode(data)
        except msgspec.DecodeError:
            # Not of our making, or damaged: as good as none.
            return None
        return shelved.answer if self._unix_time() < shelved.at + self._ttl_s else None
