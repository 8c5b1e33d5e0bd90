"""When keys were last used, on its way to the database."""

import asyncio

import structlog

from forebay.administration.store import ConfigurationStore
from forebay.core.errors import StoreUnavailable
from forebay.tenancy.authenticator import Authenticator

logger = structlog.get_logger(__name__)

EVERY_S = 30.0


async def note_key_use(store: ConfigurationStore, authenticator: Authenticator) -> None:
    """Until cancelled, and once more then. What cannot be written is lost: the next use is written again."""
    try:
        while True:
            await asyncio.sleep(EVERY_S)
            await asyncio.to_thread(_write, store, authenticator)
    finally:
        _write(store, authenticator)


def _write(store: ConfigurationStore, authenticator: Authenticator) -> None:
    if used := authenticator.take_last_used():
        try:
            store.note_key_use(used)
        except StoreUnavailable as error:
            logger.warning("last use of keys not written", keys=len(used), detail=error.detail)
