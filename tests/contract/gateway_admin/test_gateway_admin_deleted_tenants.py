"""What a deleted tenant leaves: nobody gets it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from forebay.administration import administration as administrations
from forebay.administration.administration import Administration
from forebay.administration.kinds import TENANTS
from forebay.api.admin import read_fields
from forebay.core.errors import Conflict, ResourceNotFound, StoreUnavailable
from forebay.storage.relational.store import open_configuration_store
from tests.contract.gateway_admin.platform import AdminPlatform


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/admin/v1/tenants", {"id": "search", "name": "New"}), ("PUT", "/admin/v1/tenants/search", {})],
)
def test_its_id_is_nobodys_any_more(
    platform: AdminPlatform, tenant: str, method: str, path: str, body: dict[str, str]
) -> None:
    assert platform.send("DELETE", f"/admin/v1/tenants/{tenant}").status == 204
    refused = platform.send(method, path, body)
    assert (refused.status, refused.json["type"], refused.param) == (409, "urn:forebay:problem:conflict", "id")
    assert "choose another id" in refused.json["detail"]
    assert platform.send("GET", "/admin/v1/tenants/search").status == 404
    assert len(platform.audit(kind="tenants", id="search")) == 2
    platform.made("tenants", id="search-2")


def test_one_that_is_there_is_another_conflict(platform: AdminPlatform, tenant: str) -> None:
    refused = platform.send("POST", "/admin/v1/tenants", {"id": tenant})
    assert refused.status == 409
    assert "already" in refused.json["detail"]


def test_other_kinds_may_have_the_id_of_one_before(platform: AdminPlatform, tenant: str) -> None:
    """A quota of a tenant has its id, and may come and go."""
    for _ in range(2):
        platform.made("quotas", tenant=tenant, concurrent_requests=1)
        assert platform.send("DELETE", f"/admin/v1/quotas/{tenant}").status == 204
    platform.made("prompts", id="later", text="x")
    assert platform.send("DELETE", "/admin/v1/prompts/later").status == 204
    platform.made("tenants", id="later")


def test_what_is_kept_of_it_is_forgotten_with_it(platform: AdminPlatform, tenant: str) -> None:
    key = platform.made("keys", tenant=tenant)["id"]
    assert platform.send("DELETE", f"/admin/v1/tenants/{tenant}").status == 409
    assert platform.send("DELETE", f"/admin/v1/keys/{key}").status == 204
    assert platform.send("DELETE", "/admin/v1/tenants/nobody").status == 404
    assert platform.forgotten == []
    assert platform.send("DELETE", f"/admin/v1/tenants/{tenant}").status == 204
    assert platform.forgotten == [tenant]


async def away(_tenant: str) -> None:
    raise StoreUnavailable("The objects cannot be reached.")


async def broken(_tenant: str) -> None:
    raise RuntimeError("nobody foresaw this")


async def never(_tenant: str) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("forgotten", [away, broken, never])
def test_that_it_cannot_be_forgotten_now_is_logged(
    tmp_path: Path, forgotten: Callable[[str], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administrations, "FORGET_S", 0.01)
    store = open_configuration_store(f"sqlite:///{tmp_path / 'x.db'}")
    store.migrate()

    async def nothing() -> None: ...

    async def run() -> None:
        administration = Administration(
            store,
            known_aliases=lambda: (),
            known_models=lambda: (),
            unix_time=lambda: 1.0,
            changed=nothing,
            forgotten=forgotten,
        )
        with closing(administration):
            await administration.create(TENANTS, read_fields(b'{"id": "t"}'), actor="a")
            await administration.delete(TENANTS, "t", actor="a")
            with pytest.raises(ResourceNotFound):
                await administration.get(TENANTS, "t")
            with pytest.raises(Conflict):
                await administration.create(TENANTS, read_fields(b'{"id": "t"}'), actor="a")

    with closing(store), capture_logs() as logs:
        asyncio.run(run())
    (told,) = logs
    assert (told["log_level"], told["tenant"]) == ("warning", "t")
