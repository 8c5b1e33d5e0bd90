"""Usage records, asked of the Admin API."""

import msgspec

from forebay.cli.admin.api import PAGE, AdminApi, decoded
from forebay.metering.reconciliation import BilledRequest

RECORDS = "/admin/v1/usage/records"


class _Page(msgspec.Struct):
    data: list[BilledRequest]
    has_more: bool
    last_id: str | None


async def billed_in(api: AdminApi, begins: float, ends: float) -> list[BilledRequest]:
    """Those that ended in [begins, ends) (Unix seconds), each once. Raises AdminFailure.

    For each page a gateway looks at all of the period that it is asked for: periods are as long as a page lasts.
    """
    found: dict[str, BilledRequest] = {}
    first, length = begins, ends - begins
    while first < ends:
        last = min(first + length, ends)
        page = await _page(api, first, last, None)
        found |= {record.id: record for record in page.data}
        if page.has_more and (reached := page.data[-1].ended_at) > first:
            # Those that ended at that very moment come again.
            first, length = reached, reached - first
            continue
        while page.has_more:
            page = await _page(api, first, last, page.last_id)
            found |= {record.id: record for record in page.data}
        first, length = last, length * 2
    return list(found.values())


async def _page(api: AdminApi, begins: float, ends: float, after: str | None) -> _Page:
    query = {"from": begins, "to": ends, "after": after, "limit": PAGE}
    return decoded((await api.call("GET", RECORDS, query=query)).body, _Page)
