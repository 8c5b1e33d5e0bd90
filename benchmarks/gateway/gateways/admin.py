"""Through Forebay's Admin API: a tenant with quotas that count everything and refuse nothing, and its key."""

import json
from typing import Any

import aiohttp

from benchmarks.engine.processes import PeerFailedError

_TENANT = "bench"
_LIMITS: dict[str, Any] = {
    "tokens_per_minute": 100_000_000,
    "requests_per_minute": 1_000_000,
    "concurrent_requests": 10_000,
    "max_tokens": 4096,
}


async def make_tenant(port: int, operator_key: str, alias: str, pool: str) -> str:
    """The new key. Raises PeerFailedError where the Admin API refuses."""
    headers = {"Authorization": f"Bearer {operator_key}"}
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers, timeout=timeout) as session:
        await _post(session, "tenants", {"id": _TENANT})
        price = {"model": pool, "prompt_usd_per_million": "1", "output_usd_per_million": "2"}
        await _post(session, "prices", price)
        key = await _post(session, "keys", {"tenant": _TENANT, "name": "load"})
        await _post(session, "quotas", {"tenant": _TENANT, **_LIMITS, "monthly_budget_usd": "1000000"})
        await _post(session, "quotas", {"tenant": _TENANT, "alias": alias, **_LIMITS})
        await _post(session, "quotas", {"tenant": _TENANT, "key": key["id"], **_LIMITS})
        return str(key["secret"])


async def _post(session: aiohttp.ClientSession, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        async with session.post(f"/admin/v1/{kind}", json=body) as answer:
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise PeerFailedError(f"POST /admin/v1/{kind} was not answered: {error!r}") from error
    if answer.status not in {200, 201}:
        raise PeerFailedError(f"POST /admin/v1/{kind} answered {answer.status}: {text[:500]}")
    return json.loads(text)
