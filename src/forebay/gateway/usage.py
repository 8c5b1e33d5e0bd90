"""`GET /v1/usage`, of the caller's own tenant, and `GET /admin/v1/usage`, of all."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.api.usage import SYNONYMS, Usage, UsageQuestion, read_usage_question, told_time
from forebay.core.errors import PermissionDenied
from forebay.core.money import usd_of
from forebay.gateway.caller import caller
from forebay.metering.report import UsageBooks, UsageRow
from forebay.tenancy.authenticator import Authenticator, require_scope
from forebay.web.responses import json_response

SUMS = ("requests", "prompt_tokens", "cached_tokens", "output_tokens", "cost_nanos", "prompt_nanos")

AnyRequest = Request[Any, Any, Any]


def usage_routes(
    authenticator: Authenticator, books: UsageBooks, wall: Callable[[], float] = time.time
) -> list[HTTPRouteHandler]:
    """The two handlers. `wall` is Unix time."""

    @get("/v1/usage")
    async def own_usage(request: AnyRequest) -> ASGIResponse:
        principal = caller(authenticator, request, None)
        require_scope(principal, "usage")
        question = _question(request, wall())
        if question.where.get("tenant", principal.tenant_id) != principal.tenant_id:
            raise PermissionDenied(
                f"This key is of the tenant {principal.tenant_id} and sees only its usage; leave out `tenant`.",
                param="tenant",
            )
        own = replace(question, where={**question.where, "tenant": principal.tenant_id})
        return json_response(await _usage(books, own))

    @get("/admin/v1/usage")
    async def all_usage(request: AnyRequest) -> ASGIResponse:
        require_scope(caller(authenticator, request, None), "admin")
        return json_response(await _usage(books, _question(request, wall())))

    return [own_usage, all_usage]


def _question(request: AnyRequest, now: float) -> UsageQuestion:
    return read_usage_question(request.query_params.multi_items(), now)


async def _usage(books: UsageBooks, question: UsageQuestion) -> Usage:
    """Raises InvalidRequest, StoreUnavailable."""
    where = {SYNONYMS.get(name, name): value for name, value in question.where.items()}
    groups = [SYNONYMS.get(name, name) for name in question.groups]
    rows = await books.query(question.begins, question.ends, groups, where)
    return Usage(
        from_=told_time(question.begins),
        to=told_time(question.ends),
        group_by=question.groups,
        data=[{**_named(row, question.groups), **_sums([row])} for row in rows],
        total=_sums(rows),
    )


def _named(row: UsageRow, groups: Sequence[str]) -> Mapping[str, str | None]:
    """What the row's requests have in common, by the names that were asked with."""
    return {name: row.group[SYNONYMS.get(name, name)] for name in groups}


def _sums(rows: Sequence[UsageRow]) -> Mapping[str, Any]:
    sums = {name: sum(getattr(row, name) for row in rows) for name in SUMS}
    return {**sums, "cost_usd": f"{usd_of(sums['cost_nanos']):f}"}
