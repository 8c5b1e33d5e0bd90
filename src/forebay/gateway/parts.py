"""What the gateway's routes are given."""

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.catalog.catalog import Catalog
from forebay.fleet.pool import Pool
from forebay.gateway.door import Door
from forebay.gateway.metrics import GatewayMetrics
from forebay.serving.inference import InferenceService
from forebay.tenancy.authenticator import Authenticator
from forebay.web.body import BodyLimits


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """All of it; `created` is the gateway's start in Unix seconds."""

    authenticator: Authenticator
    catalog: Catalog
    service: InferenceService
    pools: Mapping[str, Pool]
    metrics: GatewayMetrics
    door: Door
    body_limits: BodyLimits
    created: int
