"""When keys were last used, on its way to the database."""

import asyncio

from forebay.administration.store import ConfigurationStore
from forebay.core.errors import StoreUnavailable
from forebay.core.outage import Outage
from forebay.tenancy.authenticator import Authenticator

EVERY_S = 30.0


async def note_key_use(store: ConfigurationStore, authenticator: Authenticator) -> None:
    """Until cancelled, and once more then. What cannot be written is lost: the next use is written again."""
    outage = Outage("last use of keys not written", "last use of keys is written again")
    try:
        while True:
            await asyncio.sleep(EVERY_S)
            await asyncio.to_thread(_write, store, authenticator, outage)
    finally:
        _write(store, authenticator, outage)


def _write(store: ConfigurationStore, authenticator: Authenticator, outage: Outage) -> None:
    if used := authenticator.take_last_used():
        try:
            store.note_key_use(used)
        except StoreUnavailable as error:
            outage.begins(keys=len(used), detail=error.detail)
        else:
            outage.ends()
