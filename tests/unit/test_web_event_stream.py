"""A stream that never has to wait, neither for its events nor for its client."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from forebay.api import sse
from forebay.web.event_stream import CHUNKS_BETWEEN_TURNS, EventStream

SOON = 100 * CHUNKS_BETWEEN_TURNS


def test_it_is_noticed_that_the_client_left() -> None:
    """A server lets those who have left take whatever they are sent, at once."""
    sent = 0

    async def events() -> AsyncGenerator[bytes, None]:
        for _ in range(SOON):
            yield sse.event(b"1")

    async def main() -> None:
        left = asyncio.Event()

        async def receive() -> Any:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            nonlocal sent
            sent += 1
            if sent == 10:
                left.set()

        await EventStream(events())({"type": "http", "path": "/"}, receive, send)  # type: ignore[arg-type]

    asyncio.run(main())
    assert 10 <= sent < SOON / 2
