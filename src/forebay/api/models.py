"""`GET /v1/models`: what comes out."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class ModelLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the caller may use of a model: the least of the quotas that it is under. What is not limited is not sent.

    `max_tokens` is for each answer; the budget is in dollars a month, as decimal text.
    """

    tokens_per_minute: int | None = None
    requests_per_minute: int | None = None
    concurrent_requests: int | None = None
    max_tokens: int | None = None
    monthly_budget_usd: str | None = None


class ModelPricing(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars for a million tokens, as decimal text, now, for requests of the caller's default class."""

    prompt_usd_per_million: str
    cached_usd_per_million: str
    output_usd_per_million: str
    price_version: str


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model that can be called. `created` is in Unix seconds; `max_model_len` is prompt plus output tokens, and not
    sent where that is not known. `version` is what answers now.
    """

    id: str
    created: int
    owned_by: str = "forebay"
    root: str | None = None
    parent: str | None = None
    max_model_len: int | UnsetType = UNSET
    version: str | UnsetType = UNSET
    precision: str | UnsetType = UNSET
    limits: ModelLimits | UnsetType = UNSET
    pricing: ModelPricing | UnsetType = UNSET
    object: Literal["model"] = "model"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    data: list[Model]
    object: Literal["list"] = "list"
