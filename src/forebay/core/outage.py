"""What loops say of something that fails for a while: once that it does, once that it does not any more."""

from typing import Any

import structlog

logger = structlog.get_logger(__name__)


class Outage:
    """`failing` and `working` are the events that are logged. Both methods may be called again and again."""

    def __init__(self, failing: str, working: str) -> None:
        self._failing = failing
        self._working = working
        self._lasts = False

    def begins(self, **said: Any) -> None:
        if not self._lasts:
            logger.warning(self._failing, **said)
        self._lasts = True

    def ends(self) -> None:
        if self._lasts:
            logger.info(self._working)
        self._lasts = False
