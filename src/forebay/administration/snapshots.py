"""The newest snapshot of the configuration, kept fresh."""

import asyncio
import math
from contextlib import suppress

import structlog

from forebay.administration.snapshot import PlatformSnapshot, snapshot_of
from forebay.administration.store import ConfigurationStore, Contents
from forebay.core.clock import Clock
from forebay.core.errors import ForebayError, StoreUnavailable

log = structlog.stdlib.get_logger()


class Snapshots:
    """Looks every `refresh_s` seconds whether the configuration has changed, and has the last that could be read.

    While the database is away the last snapshot stays. `built_in` holds until the first could be read.
    """

    def __init__(
        self, store: ConfigurationStore, clock: Clock, refresh_s: float, *, built_in: Contents | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._refresh_s = refresh_s
        self._current = None if built_in is None else snapshot_of(built_in)
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._look = asyncio.Event()
        self._away = False

    @property
    def current(self) -> PlatformSnapshot:
        """Raises StoreUnavailable where none was read yet and none is built in."""
        if self._current is None:
            raise StoreUnavailable(
                "The configuration could not be read from its database yet; this gateway tries again every "
                f"{self._refresh_s:g} s.",
                retry_after_s=self._refresh_s,
            )
        return self._current

    @property
    def age_s(self) -> float:
        """How long ago it was last certain that `current` is what the database has; infinite before the first time."""
        return math.inf if self._read_at is None else self._clock.now() - self._read_at

    async def load(self) -> PlatformSnapshot:
        """The first snapshot. Raises StoreUnavailable."""
        await self.refresh()
        return self.current

    async def refresh(self) -> None:
        """Look now, and read what has changed. Raises StoreUnavailable; then what was there stays."""
        async with self._reading:
            asked_at = self._clock.now()
            known = None if self._read_at is None or self._current is None else self._current.change
            newer = await asyncio.to_thread(self._read, known)
            if newer is not None:
                self._current = newer
            self._read_at = asked_at

    def changed(self) -> None:
        """Make the loop look at once. To be called in the event loop's own thread."""
        self._look.set()

    async def run(self) -> None:
        """Until cancelled, whatever the database does."""
        while True:
            await self._try_refresh()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._refresh_s):
                    await self._look.wait()
            self._look.clear()

    async def _try_refresh(self) -> None:
        """A fault that nobody foresaw ends the loop no more than a database that is away."""
        try:
            await self.refresh()
        except Exception as error:
            if not self._away:
                said = error.detail if isinstance(error, ForebayError) else repr(error)
                log.warning("configuration cannot be read; the last snapshot stays", error=said)
            self._away = True
        else:
            if self._away:
                log.info("configuration can be read again", change=self.current.change)
            self._away = False

    def _read(self, known: int | None) -> PlatformSnapshot | None:
        """None where the `known` change is the newest. The number comes first: asking for it is cheap."""
        if known is not None and self._store.change_number() == known:
            return None
        return snapshot_of(self._store.contents())
