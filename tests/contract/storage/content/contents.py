"""Content to keep."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from forebay.serving.content_log import Content
from forebay.storage.objects.store import ObjectStore
from forebay.tenancy.resources import Tenant

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC).timestamp()
DAY_S = 86400.0


def content(id_: str = "req_1", tenant: str = "alpha", at: float = NOON, said: str = "hello") -> Content:
    return Content(
        id=id_,
        request_id="mine",
        tenant=tenant,
        key="key_1",
        alias="small",
        at=at,
        asked=b'{"prompt": "%s"}' % said.encode(),
        answered=[b'{"text": "yes"}'],
    )


def tenant(id_: str = "alpha", *, days: int = 30, log: bool = True, replay: bool = True) -> Tenant:
    return Tenant(id=id_, log_content=log, replay_outputs=replay, log_retention_days=days)


def paths(objects: ObjectStore) -> list[str]:
    """Of all that is kept."""
    return [one.path for top in ("content", "replays") for one in objects.below(top)]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what tells nobody that it has come."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
