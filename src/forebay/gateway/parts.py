"""What the gateway's routes are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forebay.administration.snapshot import PlatformSnapshot
from forebay.catalog.catalog import Catalog
from forebay.core.clock import Clock
from forebay.fleet.pool import Pool
from forebay.gateway.door import Door
from forebay.gateway.metrics import GatewayMetrics
from forebay.serving.repeats import Repeats
from forebay.tenancy.authenticator import Authenticator
from forebay.web.body import BodyLimits


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """All of it; `configuration` gives what operators have configured as of now, `unix_time` seconds, `created` the
    gateway's start in those, `usage_log_fails` whether usage cannot be written.
    """

    authenticator: Authenticator
    catalog: Catalog
    service: Repeats
    pools: Mapping[str, Pool]
    metrics: GatewayMetrics
    door: Door
    body_limits: BodyLimits
    configuration: Callable[[], PlatformSnapshot]
    clock: Clock
    unix_time: Callable[[], float]
    usage_log_fails: Callable[[], bool]
    created: int
