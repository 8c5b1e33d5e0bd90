"""`GET /admin/v1/audit`: who changed what."""

from typing import Any

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.administration.administration import Administration
from forebay.administration.kinds import KINDS
from forebay.administration.store import AUDIT_FILTERS, AuditEntry
from forebay.api.admin import page_size, require_known, whole_number
from forebay.gateway.admin.operator import AnyRequest, operator, query_of
from forebay.gateway.admin.resources import ROOT
from forebay.tenancy.authenticator import Authenticator
from forebay.web.responses import json_response

MOST = 10**18 - 1


def audit_routes(authenticator: Authenticator, administration: Administration) -> list[HTTPRouteHandler]:
    """The one handler."""

    @get(f"{ROOT}/audit")
    async def audit(request: AnyRequest) -> ASGIResponse:
        operator(authenticator, request)
        query = query_of(request, "limit", "before", *AUDIT_FILTERS)
        where = {name: query[name] for name in AUDIT_FILTERS if name in query}
        if "kind" in where:
            require_known((where["kind"],), [kind.name for kind in KINDS], "kind")
        before = whole_number(query, "before", least=1, most=MOST)
        page = await administration.audit(before=before, limit=page_size(query), where=where)
        last = page.entries[-1].number if page.entries else None
        entries = [_told(entry) for entry in page.entries]
        return json_response({"object": "list", "data": entries, "has_more": page.has_more, "last_id": last})

    return [audit]


def _told(entry: AuditEntry) -> dict[str, Any]:
    return {"object": "audit_entry", **msgspec.structs.asdict(entry)}
