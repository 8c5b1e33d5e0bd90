"""Work that is too long for the event loop goes to a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

INLINE_SIZE = 4096
"""Work of up to this size is done where it is: about a millisecond for so many characters to be cut into tokens, or so
many tokens to be named."""


async def run_sized(work: Callable[[], T], size: int) -> T:
    """What `work` returns."""
    return work() if size <= INLINE_SIZE else await asyncio.to_thread(work)
