"""`GET /health`, `GET /health/ready` and `GET /metrics`: for whoever watches the platform. They need no key."""

from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse
from prometheus_client import CONTENT_TYPE_LATEST

from forebay.fleet.pool import Pool, describe
from forebay.gateway.parts import GatewayParts
from forebay.web.responses import json_response


def operation_routes(parts: GatewayParts) -> list[HTTPRouteHandler]:
    """The three handlers."""

    @get("/health")
    async def health(request: Request[Any, Any, Any]) -> ASGIResponse:
        return json_response(_report(parts))

    @get("/health/ready")
    async def ready(request: Request[Any, Any, Any]) -> ASGIResponse:
        report = _report(parts)
        return json_response(report, status=200 if report["status"] == "ready" else 503)

    @get("/metrics")
    async def metrics(request: Request[Any, Any, Any]) -> ASGIResponse:
        return ASGIResponse(body=parts.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return [health, ready, metrics]


def _report(parts: GatewayParts) -> dict[str, Any]:
    """The state of each pool, without what only its operator should see (addresses, logs)."""
    return {
        "status": _status(parts),
        "usage_log": "failing" if parts.usage_log_fails() else "ok",
        "pools": {name: _pool_report(pool) for name, pool in parts.pools.items()},
    }


def _status(parts: GatewayParts) -> str:
    if parts.door.draining:
        return "draining"
    ready = [pool.ready for pool in parts.pools.values()]
    if not any(ready):
        return "unavailable"
    # Where usage cannot be written, no request is let in.
    return "degraded" if parts.usage_log_fails() or not all(ready) else "ready"


def _pool_report(pool: Pool) -> dict[str, Any]:
    return {
        "ready": pool.ready,
        "replicas": [
            {
                "name": replica.name,
                "state": describe(replica),
                "outstanding": replica.outstanding,
                "restarts": replica.restarts,
            }
            for replica in pool.snapshots()
        ],
    }
