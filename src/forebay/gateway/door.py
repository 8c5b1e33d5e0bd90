"""Which requests are inside, so that stopping can wait for them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from forebay.core.errors import CapacityUnavailable


class Door:
    """Open until it is told to drain."""

    def __init__(self) -> None:
        self._inside = 0
        self._draining = False
        self._over = False
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def enter(self) -> Generator[None]:
        """Be inside for one request. Raises CapacityUnavailable while draining, and out of whatever is cancelled when
        that is over.
        """
        self.require_open()
        self._inside += 1
        self._empty.clear()
        try:
            yield
        except asyncio.CancelledError:
            if self._over:
                raise CapacityUnavailable(
                    "This gateway has stopped; send the request again.", retry_after_s=1.0
                ) from None
            raise
        finally:
            self._inside -= 1
            if self._inside == 0:
                self._empty.set()

    @property
    def draining(self) -> bool:
        """Whether nobody is let in any more."""
        return self._draining

    @property
    def over(self) -> bool:
        """Whether even the time of those inside is up."""
        return self._over

    def require_open(self) -> None:
        if self._draining:
            raise CapacityUnavailable("This gateway is stopping; send the request again.", retry_after_s=1.0)

    async def drain(self, timeout_s: float) -> None:
        """Let nobody in, and wait until nobody is inside, `timeout_s` at most."""
        self._draining = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            return
        finally:
            self._over = True
