"""A change that is made is told, whatever becomes of this gateway's snapshot."""

import asyncio
from pathlib import Path

import pytest

from forebay.administration.administration import Administration
from forebay.administration.kinds import KEYS, TENANTS
from forebay.api.admin import read_fields
from forebay.core.errors import InvalidRequest, StoreUnavailable
from forebay.storage.relational.store import open_configuration_store


def test_the_snapshot_is_refreshed_before_the_answer_or_later(tmp_path: Path) -> None:
    store = open_configuration_store(f"sqlite:///{tmp_path / 'x.db'}")
    store.migrate()
    seen: list[int] = []

    async def changed() -> None:
        seen.append(store.change_number())
        if len(seen) > 1:
            raise StoreUnavailable("The database went away just now.")

    async def run() -> None:
        administration = Administration(
            store,
            known_aliases=lambda: (),
            known_models=lambda: (),
            unix_time=lambda: 1.0,
            changed=changed,
        )
        await administration.create(TENANTS, read_fields(b'{"id": "t"}'), actor="a")
        assert seen == [1]
        key = await administration.create(KEYS, read_fields(b'{"tenant": "t"}'), actor="a")
        assert key.row["secret"].startswith("fb-")
        assert seen == [1, 2]
        with pytest.raises(InvalidRequest):
            await administration.create(KEYS, read_fields(b'{"tenant": "u"}'), actor="a")
        await administration.get(TENANTS, "t")
        assert seen == [1, 2], "nothing has changed"

    try:
        asyncio.run(run())
    finally:
        store.close()
