"""`GET /v1/models`: what comes out."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model that can be called. `created` is in Unix seconds; `max_model_len` is prompt plus output tokens, and not
    sent where that is not known.
    """

    id: str
    created: int
    owned_by: str = "forebay"
    root: str | None = None
    parent: str | None = None
    max_model_len: int | UnsetType = UNSET
    object: Literal["model"] = "model"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    data: list[Model]
    object: Literal["list"] = "list"
