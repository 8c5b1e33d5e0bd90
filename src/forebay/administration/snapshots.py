"""The newest snapshot of the configuration, kept fresh."""

import asyncio
import math

import structlog

from forebay.administration.snapshot import PlatformSnapshot, snapshot_of
from forebay.administration.store import ConfigurationStore
from forebay.core.clock import Clock
from forebay.core.errors import ForebayError, StoreUnavailable

logger = structlog.get_logger(__name__)


class Snapshots:
    """Looks every `refresh_s` seconds whether the configuration has changed, and has the last that could be read.

    While the database is away the last snapshot stays.
    """

    def __init__(self, store: ConfigurationStore, clock: Clock, refresh_s: float) -> None:
        self._store = store
        self._clock = clock
        self._refresh_s = refresh_s
        self._current: PlatformSnapshot | None = None
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._away = False

    @property
    def current(self) -> PlatformSnapshot:
        """Raises StoreUnavailable where none was read yet."""
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

    async def refresh(self) -> None:
        """Look now, and read what has changed. Raises StoreUnavailable; then what was there stays."""
        async with self._reading:
            asked_at = self._clock.now()
            known = None if self._current is None else self._current.change
            newer = await asyncio.to_thread(self._read, known)
            if newer is not None:
                self._current = newer
            self._read_at = asked_at

    async def run(self) -> None:
        """Until cancelled, whatever the database does."""
        while True:
            await self._try_refresh()
            await asyncio.sleep(self._refresh_s)

    async def _try_refresh(self) -> None:
        """A fault that nobody foresaw ends the loop no more than a database that is away."""
        try:
            await self.refresh()
        except Exception as error:
            if not self._away:
                said = error.detail if isinstance(error, ForebayError) else repr(error)
                logger.warning("configuration cannot be read; the last snapshot stays", error=said)
            self._away = True
        else:
            if self._away:
                logger.info("configuration can be read again", change=self.current.change)
            self._away = False

    def _read(self, known: int | None) -> PlatformSnapshot | None:
        """None where the `known` change is the newest. The number comes first: asking for it is cheap."""
        if known is not None and self._store.change_number() == known:
            return None
        return snapshot_of(self._store.contents())
