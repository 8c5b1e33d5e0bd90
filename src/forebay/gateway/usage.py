"""`GET /v1/usage`, of the caller's own tenant, and of all: `GET /admin/v1/usage` and `GET /admin/v1/usage/records`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.api.usage import (
    SYNONYMS,
    RecordsQuestion,
    Usage,
    UsageQuestion,
    read_records_question,
    read_usage_question,
    told_time,
)
from forebay.core.errors import PermissionDenied
from forebay.core.money import usd_text
from forebay.gateway.admin.operator import AnyRequest, operator
from forebay.gateway.admin.resources import ROOT
from forebay.gateway.caller import caller
from forebay.metering.report import UsageBooks, UsageRow
from forebay.metering.usage import UsageRecord
from forebay.tenancy.authenticator import Authenticator, require_scope
from forebay.web.responses import json_response

SUMS = ("requests", "prompt_tokens", "cached_tokens", "output_tokens", "cost_nanos", "prompt_nanos")

RECORD_FIELDS = tuple(name for name in UsageRecord.__struct_fields__ if name != "idempotency_hash")
"""What is told of a request: the hash says nothing to anyone."""


def usage_routes(
    authenticator: Authenticator, books: UsageBooks, unix_time: Callable[[], float]
) -> list[HTTPRouteHandler]:
    """The three handlers. `unix_time` gives seconds."""

    @get("/v1/usage")
    async def own_usage(request: AnyRequest) -> ASGIResponse:
        principal = caller(authenticator, request, None)
        require_scope(principal, "usage")
        question = _question(request, unix_time())
        if question.where.get("tenant", principal.tenant_id) != principal.tenant_id:
            raise PermissionDenied(
                f"This key is of the tenant {principal.tenant_id} and sees only its usage; leave out `tenant`.",
                param="tenant",
            )
        own = replace(question, where={**question.where, "tenant": principal.tenant_id})
        return json_response(await _usage(books, own))

    @get(f"{ROOT}/usage")
    async def all_usage(request: AnyRequest) -> ASGIResponse:
        operator(authenticator, request)
        return json_response(await _usage(books, _question(request, unix_time())))

    @get(f"{ROOT}/usage/records")
    async def records(request: AnyRequest) -> ASGIResponse:
        operator(authenticator, request)
        question = read_records_question(request.query_params.multi_items(), unix_time())
        return json_response(await _records(books, question))

    return [own_usage, all_usage, records]


def _question(request: AnyRequest, now: float) -> UsageQuestion:
    return read_usage_question(request.query_params.multi_items(), now)


async def _usage(books: UsageBooks, question: UsageQuestion) -> Usage:
    """Raises InvalidRequest, StoreUnavailable."""
    groups = [SYNONYMS.get(name, name) for name in question.groups]
    rows = await books.query(question.begins, question.ends, groups, _where(question.where))
    return Usage(
        from_=told_time(question.begins),
        to=told_time(question.ends),
        group_by=question.groups,
        data=[{**_named(row, question.groups), **_sums([row])} for row in rows],
        total=_sums(rows),
    )


async def _records(books: UsageBooks, question: RecordsQuestion) -> Mapping[str, Any]:
    """Raises InvalidRequest, StoreUnavailable."""
    # One more than is told, to know whether there are more.
    found = await books.records(
        question.begins, question.ends, _where(question.where), after=question.after, limit=question.limit + 1
    )
    told = found[: question.limit]
    return {
        "object": "list",
        "data": [_told(record) for record in told],
        "has_more": len(found) > len(told),
        "last_id": told[-1].id if told else None,
    }


def _told(record: UsageRecord) -> dict[str, Any]:
    return {"object": "usage_record", **{name: getattr(record, name) for name in RECORD_FIELDS}}


def _where(asked: Mapping[str, str]) -> dict[str, str]:
    """By the names of the books."""
    return {SYNONYMS.get(name, name): value for name, value in asked.items()}


def _named(row: UsageRow, groups: Sequence[str]) -> Mapping[str, str | None]:
    """What the row's requests have in common, by the names that were asked with."""
    return {name: row.group[SYNONYMS.get(name, name)] for name in groups}


def _sums(rows: Sequence[UsageRow]) -> Mapping[str, Any]:
    sums = {name: sum(getattr(row, name) for row in rows) for name in SUMS}
    return {**sums, "cost_usd": usd_text(sums["cost_nanos"])}
