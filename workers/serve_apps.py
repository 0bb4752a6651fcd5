"""Pools as Serve applications: one application each, all in one declarative document.

Pure. Owns what is the same for every pool (names, the external scaler, health checks) and the rule
that one pool's change leaves every other pool's application byte for byte as Serve has it.
"""

from typing import Any

from workers.catalog import EMBED, Catalog, Model, Pool
from workers.engines.names import EMBEDDING, VLLM
from workers.ray_api import AppDetails, ServeDetails
from workers.ray_file import RayFile
from workers.settings import WorkersSettings

DEPLOYMENT = "engine"

App = dict[str, Any]


def app_name(pool: str) -> str:
    return f"pool-{pool}"


def serve_config(
    catalog: Catalog,
    details: ServeDetails,
    settings: WorkersSettings,
    *,
    place: RayFile,
    rebuild: bool = False,
) -> dict[str, Any] | None:
    """The document to PUT, or None when Serve already runs just these applications.

    `rebuild`: put it again although nothing changed, so that Serve retries what it gave up on.
    """
    deployed = details.applications
    wanted = [_wanted(pool, catalog, settings) for pool in catalog.own_pools]
    apps = [_kept_or_changed(app, deployed.get(app["name"])) for app in wanted]
    settled = all(_is_deployed(app, deployed.get(app["name"])) for app in apps)
    surplus = any(_is_surplus(name, app, wanted) for name, app in deployed.items())
    if settled and not surplus and not rebuild:
        return None
    return {
        # With no proxy at all Serve gives replicas no HTTP port; one idle proxy is the least.
        "proxy_location": "HeadOnly",
        "http_options": {"host": place.node_ip, "port": place.serve_proxy_port},
        "applications": apps,
    }


def _wanted(pool: Pool, catalog: Catalog, settings: WorkersSettings) -> App:
    model = catalog.model_of(pool)
    engine = engine_of(pool, model, settings)
    controller = settings.controller
    return {
        "name": app_name(pool.name),
        "route_prefix": f"/{pool.name}",
        "import_path": controller.import_path,
        "external_scaler_enabled": True,
        "args": {
            "pool": pool.name,
            "model_path": model.path,
            "context_tokens": model.context_tokens,
            "engine": engine,
            "slots": pool.max_ongoing,
            "threads": settings.ray.worker_threads,
            **_engine_arguments(engine, settings),
        },
        "deployments": [
            {
                "name": DEPLOYMENT,
                "num_replicas": 1,
                "graceful_shutdown_timeout_s": controller.graceful_shutdown_s,
                "health_check_period_s": controller.health_check_period_s,
                "health_check_timeout_s": controller.health_check_timeout_s,
                "ray_actor_options": _actor_options(pool, engine, settings),
            }
        ],
    }


def engine_of(pool: Pool, model: Model, settings: WorkersSettings) -> str:
    """What runs a pool: its own choice, else what its model's task or the settings say."""
    if pool.engine is not None:
        return pool.engine
    return EMBEDDING if model.task == EMBED else settings.engine


def _engine_arguments(engine: str, settings: WorkersSettings) -> dict[str, Any]:
    reserved = {"kv_cache_mb", "gpu_memory_share", "dtype"}
    return settings.vllm.model_dump(include=reserved) if engine == VLLM else {}


def _actor_options(pool: Pool, engine: str, settings: WorkersSettings) -> dict[str, Any]:
    """What a replica asks of the cluster: GPUs only where a pool names some, another interpreter
    only for an engine that lives in an environment of its own."""
    options: dict[str, Any] = {"num_cpus": pool.num_cpus}
    if pool.num_gpus:
        options["num_gpus"] = pool.num_gpus
    if engine == VLLM:
        options["runtime_env"] = {"py_executable": str(settings.vllm.interpreter)}
    return options


def _kept_or_changed(wanted: App, deployed: AppDetails | None) -> App:
    """Serve applies the count in the document only when the application changes, so an unchanged
    one keeps the count it was deployed with, and a changed one starts from the count it has."""
    if deployed is None or deployed.deployed_app_config is None:
        return wanted
    current = deployed.deployments.get(DEPLOYMENT)
    count = _count_in(deployed.deployed_app_config)
    if count is None:
        return wanted
    if _with_count(wanted, count) == deployed.deployed_app_config:
        return deployed.deployed_app_config
    running = 1 if current is None else current.target_num_replicas or 1
    return _with_count(wanted, running)


def _with_count(app: App, count: int) -> App:
    deployment = app["deployments"][0] | {"num_replicas": count}
    return app | {"deployments": [deployment]}


def _count_in(config: App) -> int | None:
    deployments = config.get("deployments") or [{}]
    count = deployments[0].get("num_replicas")
    return count if isinstance(count, int) else None


def _is_deployed(app: App, deployed: AppDetails | None) -> bool:
    return deployed is not None and deployed.deployed_app_config == app


def _is_surplus(name: str, app: AppDetails, wanted: list[App]) -> bool:
    return app.status != "DELETING" and name not in {w["name"] for w in wanted}
