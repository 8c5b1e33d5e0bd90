"""From the settings of pools to what runs and describes them."""

from collections.abc import Mapping
from pathlib import Path

from forebay.catalog.catalog import ModelVersion
from forebay.config.loading import LoadedConfig
from forebay.engine.settings import EngineSettings
from forebay.fleet.driver import PoolDriver
from forebay.fleet.drivers.local import LocalDriver, LocalPool
from forebay.fleet.drivers.remote import RemoteDriver
from forebay.fleet.fleet import PoolPlan
from forebay.fleet.replica import Endpoint
from forebay.fleet.settings import PoolSettings
from forebay.modelfiles.openvino_ir import GRAPH


def pool_plan(name: str, pool: PoolSettings, loaded: LoadedConfig) -> PoolPlan:
    """What the fleet is to keep up for a pool."""
    driver: PoolDriver
    if pool.model is None:
        driver = RemoteDriver(remote_endpoint(name, pool))
    else:
        local = LocalPool(
            model=pool.model,
            served_model_name=name,
            engine=pool.engine_settings,
            cache_dir=loaded.cache_dir,
            data_dir=loaded.data_dir,
            environment=loaded.environment,
        )
        driver = LocalDriver(local, loaded.config.fleet)
    return PoolPlan(name=name, driver=driver, replicas=pool.replicas, exact_fields=takes_our_fields(pool))


def takes_our_fields(pool: PoolSettings) -> bool:
    """Whether our own engine serves it, here or elsewhere."""
    return pool.model is not None or pool.engine == "forebay"


def remote_endpoint(name: str, pool: PoolSettings) -> Endpoint:
    """How the server of a pool with a `url` is called."""
    assert pool.url is not None, "only a pool with a url is elsewhere"
    base_url = pool.url.rstrip("/")
    knows_more = pool.engine in {"forebay", "vllm"}
    return Endpoint(
        base_url=base_url,
        model=pool.upstream_model or name,
        api_key=pool.api_key,
        takes_priority=knows_more,
        health_url=base_url.removesuffix("/v1") + "/health" if knows_more else base_url + "/models",
        tells_usage=pool.engine == "forebay",
    )


def remote_endpoints(pools: Mapping[str, PoolSettings]) -> dict[str, Endpoint]:
    """Those that outlive this process, by pool."""
    return {name: remote_endpoint(name, pool) for name, pool in pools.items() if pool.url is not None}


def model_version(name: str, pool: PoolSettings) -> ModelVersion:
    """What a pool serves, without where this machine keeps it."""
    if pool.model is None:
        return ModelVersion(pool.upstream_model or name)
    path = Path(pool.model)
    return ModelVersion(path.name if path.is_absolute() else pool.model, _precision(path, pool.engine_settings))


def _precision(path: Path, engine: EngineSettings) -> str | None:
    """Of the weights; an OpenVINO IR folder has its own."""
    if (path / GRAPH).is_file():
        return None
    return "int8" if engine.weight_precision == "auto" else engine.weight_precision
