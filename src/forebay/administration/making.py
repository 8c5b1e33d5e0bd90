"""New resources: their ids, and the secrets of keys."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from forebay.administration.drafts import draft, require_id
from forebay.administration.kinds import KEYS, PRICES, QUOTAS, Kind
from forebay.administration.rules import LAST_TIME
from forebay.api.admin import Fields
from forebay.core.errors import Conflict, InvalidRequest
from forebay.core.ids import new_id
from forebay.metering.pricing import Price
from forebay.tenancy.keys import key_hash, new_key
from forebay.tenancy.resources import ApiKey, Quota, quota_id

MAX_ID_CHARS = 400
_UNNAMED = {"id": "-"}


def made(kind: Kind[Any], fields: Fields, now: float) -> tuple[Any, str | None]:
    """The new resource of these fields, and its secret where it has one. Raises InvalidRequest."""
    if kind is KEYS:
        return _made_key(fields, now)
    if kind is QUOTAS:
        quota: Quota = draft(kind, fields, _UNNAMED)
        return _named(quota, quota_id(quota.tenant, quota.alias, quota.key), fields, "alias"), None
    if kind is PRICES:
        price: Price = draft(kind, {"effective_from": msgspec.Raw(msgspec.json.encode(now)), **fields}, _UNNAMED)
        return _named(price, price_id(price), fields, "model"), None
    id_ = {"id": fields["id"]} if "id" in fields else {}
    return draft(kind, fields, id_), None


def price_id(price: Price) -> str:
    """There is one price at most for a model, a class and a beginning: `chat:standard:2026-11-01T00:00:00Z`."""
    begins = datetime.fromtimestamp(min(max(price.effective_from, 0.0), LAST_TIME), UTC)
    return f"{quote(price.model, safe='*')}:{price.priority}:{begins.isoformat().removesuffix('+00:00')}Z"


def rotated(key: ApiKey, overlap_s: float, now: float) -> tuple[ApiKey, str]:
    """The key with a new secret, and that secret. The old one works for `overlap_s` more. Raises Conflict."""
    if key.expires_at is not None and key.expires_at <= now:
        raise Conflict(f"The key {key.id} has expired; change its expires_at first, or create another one.")
    secret = new_key()
    overlaps = overlap_s > 0
    new = msgspec.structs.replace(
        key,
        hash=key_hash(secret).hex(),
        previous_hash=key.hash if overlaps else None,
        previous_expires_at=now + overlap_s if overlaps else None,
    )
    return new, secret


def _made_key(fields: Fields, now: float) -> tuple[ApiKey, str]:
    if "id" in fields:
        raise InvalidRequest("id: the server makes it; leave it out.", param="id")
    secret = new_key()
    return draft(KEYS, fields, {"id": new_id("key"), "created_at": now, "hash": key_hash(secret).hex()}), secret


def _named(value: Any, id_: str, fields: Fields, longest: str) -> Any:
    if len(id_) > MAX_ID_CHARS:
        raise InvalidRequest(
            f"{longest}: it is too long when written in ASCII: the id would have {len(id_)} characters, "
            f"{MAX_ID_CHARS} is the most.",
            param=longest,
        )
    require_id(fields, id_)
    return msgspec.structs.replace(value, id=id_)
