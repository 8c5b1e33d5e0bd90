"""`GET /v1/models` and `GET /v1/models/{id}`: what the caller may call, within which limits and at what price."""

from collections.abc import Callable
from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse
from msgspec import UNSET

from forebay.api.models import Model, ModelLimits, ModelList, ModelPricing
from forebay.catalog.catalog import CatalogEntry
from forebay.core.money import usd_text
from forebay.gateway.caller import ANTHROPIC_KEY_HEADER, caller
from forebay.gateway.parts import GatewayParts
from forebay.tenancy.principal import Principal
from forebay.tenancy.reservation.limits import Limits
from forebay.web.responses import json_response


def model_routes(parts: GatewayParts) -> list[HTTPRouteHandler]:
    """The two handlers."""

    def model(entry: CatalogEntry, principal: Principal) -> Model:
        window = parts.pools[entry.pool].max_model_len
        return Model(
            id=entry.alias,
            created=parts.created,
            max_model_len=UNSET if window is None else window,
            version=entry.version.name,
            precision=UNSET if entry.version.precision is None else entry.version.precision,
            limits=_limits(parts, entry, principal),
            pricing=_pricing(parts, entry, principal) or UNSET,
        )

    @get("/v1/models")
    async def list_models(request: Request[Any, Any, Any]) -> ASGIResponse:
        principal = caller(parts.authenticator, request, ANTHROPIC_KEY_HEADER)
        return json_response(
            ModelList(data=[model(entry, principal) for entry in parts.catalog.entries(principal.models)])
        )

    @get("/v1/models/{model_id:path}")
    async def retrieve_model(request: Request[Any, Any, Any]) -> ASGIResponse:
        principal = caller(parts.authenticator, request, ANTHROPIC_KEY_HEADER)
        # A name may hold slashes, so it is what follows in the path, all of it.
        alias = str(request.path_params["model_id"]).removeprefix("/")
        return json_response(model(parts.catalog.resolve(alias, principal.models), principal))

    return [list_models, retrieve_model]


def _limits(parts: GatewayParts, entry: CatalogEntry, principal: Principal) -> ModelLimits:
    directory = parts.configuration().directory
    limits = [account.limits for account in directory.accounts(principal, entry.alias)]

    def least(of: Callable[[Limits], int | None]) -> int | None:
        return min((limit for each in limits if (limit := of(each)) is not None), default=None)

    budget = least(lambda each: each.budget_nanos)
    return ModelLimits(
        tokens_per_minute=least(lambda each: each.tokens_per_minute),
        requests_per_minute=least(lambda each: each.requests_per_minute),
        concurrent_requests=least(lambda each: each.concurrent_requests),
        max_tokens=directory.max_tokens(principal, entry.alias),
        monthly_budget_usd=None if budget is None else usd_text(budget),
    )


def _pricing(parts: GatewayParts, entry: CatalogEntry, principal: Principal) -> ModelPricing | None:
    terms = parts.configuration().prices.at(entry.pool, principal.default_class, parts.unix_time())
    if terms.version is None:
        return None
    return ModelPricing(
        prompt_usd_per_million=usd_text(terms.prompt_nanos_per_million),
        cached_usd_per_million=usd_text(terms.cached_nanos_per_million),
        output_usd_per_million=usd_text(terms.output_nanos_per_million),
        price_version=terms.version,
    )
