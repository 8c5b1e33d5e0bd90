"""Books of `Idempotency-Key`s: in the memory of one process, and in Valkey for all gateways that share it."""

import math
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from forebay.serving.repeat_book import FirstRequest
from forebay.storage.counters.scripts import load_repeat_scripts
from forebay.storage.counters.valkey import CALL_TIMEOUT_S, valkey_client

_first = msgspec.json.Decoder(FirstRequest)


class MemoryRepeats:
    """A `RepeatBook` of this process alone. `unix_time` gives seconds."""

    def __init__(self, unix_time: Callable[[], float]) -> None:
        self._unix_time = unix_time
        self._known: OrderedDict[str, tuple[float, FirstRequest]] = OrderedDict()
        """Digest → until when, what; all live equally long, so that the oldest come first."""

    async def claim(self, digest: str, first: FirstRequest, ttl_s: float) -> FirstRequest | None:
        self._forget_old()
        if digest in self._known:
            return self._known[digest][1]
        self._known[digest] = (self._unix_time() + ttl_s, first)
        return None

    async def write(self, digest: str, first: FirstRequest, ttl_s: float) -> None:
        self._known[digest] = (self._unix_time() + ttl_s, first)
        self._known.move_to_end(digest)

    async def release(self, digest: str) -> None:
        self._known.pop(digest, None)

    def _forget_old(self) -> None:
        now = self._unix_time()
        while self._known and next(iter(self._known.values()))[0] <= now:
            self._known.popitem(last=False)


class ValkeyRepeats:
    """A `RepeatBook` that gateways share, to be left again (`async with`)."""

    def __init__(self, url: str, *, prefix: str = "forebay", timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._prefix = prefix
        self._scripts = load_repeat_scripts()
        self._client = valkey_client(url, timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def claim(self, digest: str, first: FirstRequest, ttl_s: float) -> FirstRequest | None:
        known = await self._client.run(
            self._scripts["claim_repeat"], self._key(digest), msgspec.json.encode(first), math.ceil(ttl_s)
        )
        return _first.decode(known) if isinstance(known, bytes) else None

    async def write(self, digest: str, first: FirstRequest, ttl_s: float) -> None:
        await self._client.run(
            self._scripts["write_repeat"], self._key(digest), msgspec.json.encode(first), math.ceil(ttl_s)
        )

    async def release(self, digest: str) -> None:
        await self._client.run(self._scripts["release_repeat"], self._key(digest))

    def _key(self, digest: str) -> str:
        return f"{self._prefix}:repeat:{digest}"
