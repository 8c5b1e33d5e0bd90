"""`/admin/v1/{kind}` and `/admin/v1/{kind}/{id}`, the same for every kind."""

from typing import Any
from urllib.parse import quote, unquote_to_bytes

from litestar import delete, get, patch, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.administration.administration import Administration, Answer
from forebay.administration.kinds import Kind
from forebay.api.admin import page_size, read_fields
from forebay.gateway.admin.conditions import condition_of, etag, is_unchanged
from forebay.gateway.admin.operator import AnyRequest, json_body, operator, query_of
from forebay.tenancy.authenticator import Authenticator
from forebay.web.responses import json_response

ROOT = "/admin/v1"


def resource_routes(
    authenticator: Authenticator, administration: Administration, kind: Kind[Any]
) -> list[HTTPRouteHandler]:
    """The six handlers."""
    return [
        *_collection_routes(authenticator, administration, kind),
        *_reading_routes(authenticator, administration, kind),
        *_changing_routes(authenticator, administration, kind),
    ]


def answered(kind: Kind[Any], answer: Answer) -> ASGIResponse:
    """The response that tells of a resource."""
    headers = {"ETag": etag(answer.revision)}
    if answer.created:
        headers["Location"] = f"{ROOT}/{kind.name}/{quote(str(answer.row['id']), safe='')}"
    return json_response(answer.row, status=201 if answer.created else 200, headers=headers)


def id_in_path(request: AnyRequest, kind: Kind[Any], ending: str = "") -> str:
    """The id after `/admin/v1/{kind}/` and before `ending`. The framework's own reading of a path drops slashes."""
    path = request.scope["raw_path"].decode("ascii", "replace").partition("?")[0]
    _, _, rest = path.partition(f"{ROOT}/{kind.name}/")
    return unquote_to_bytes(rest.removesuffix(ending)).decode("utf-8", "replace")


def _collection_routes(
    authenticator: Authenticator, administration: Administration, kind: Kind[Any]
) -> list[HTTPRouteHandler]:
    @get(f"{ROOT}/{kind.name}")
    async def list_all(request: AnyRequest) -> ASGIResponse:
        operator(authenticator, request)
        query = query_of(request, "limit", "after", *kind.filters)
        where = {name: query[name] for name in kind.filters if name in query}
        page = await administration.page(kind, after=query.get("after"), limit=page_size(query), where=where)
        last_id = page.rows[-1]["id"] if page.rows else None
        return json_response({"object": "list", "data": page.rows, "has_more": page.has_more, "last_id": last_id})

    @post(f"{ROOT}/{kind.name}")
    async def create(request: AnyRequest) -> ASGIResponse:
        actor = operator(authenticator, request)
        fields = read_fields(await json_body(request))
        return answered(kind, await administration.create(kind, fields, actor=actor))

    return [list_all, create]


def _reading_routes(
    authenticator: Authenticator, administration: Administration, kind: Kind[Any]
) -> list[HTTPRouteHandler]:
    @get(f"{ROOT}/{kind.name}/{{id:path}}")
    async def read(request: AnyRequest) -> ASGIResponse:
        operator(authenticator, request)
        answer = await administration.get(kind, id_in_path(request, kind))
        if is_unchanged(request, answer.revision):
            return ASGIResponse(status_code=304, headers={"ETag": etag(answer.revision)})
        return answered(kind, answer)

    return [read]


def _changing_routes(
    authenticator: Authenticator, administration: Administration, kind: Kind[Any]
) -> list[HTTPRouteHandler]:
    path = f"{ROOT}/{kind.name}/{{id:path}}"

    @put(path)
    async def replace(request: AnyRequest) -> ASGIResponse:
        actor, condition, id_ = operator(authenticator, request), condition_of(request), id_in_path(request, kind)
        fields = read_fields(await json_body(request))
        return answered(kind, await administration.put(kind, id_, fields, actor=actor, condition=condition))

    @patch(path)
    async def change(request: AnyRequest) -> ASGIResponse:
        actor, condition, id_ = operator(authenticator, request), condition_of(request), id_in_path(request, kind)
        fields = read_fields(await json_body(request))
        return answered(kind, await administration.patch(kind, id_, fields, actor=actor, condition=condition))

    # The framework lets no handler that it knows to answer 204 give a response of its own.
    @delete(path, status_code=200)
    async def remove(request: AnyRequest) -> ASGIResponse:
        actor, condition, id_ = operator(authenticator, request), condition_of(request), id_in_path(request, kind)
        await administration.delete(kind, id_, actor=actor, condition=condition)
        return ASGIResponse(status_code=204)

    return [replace, change, remove]
