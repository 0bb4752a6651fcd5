"""Pools as Serve applications: one for each generation of a pool, all in one document.

Pure. Owns what is the same for every pool (names, the external scaler, health checks) and the rule
that one pool's change leaves every other pool's application byte for byte as Serve has it. An
application never changes: its name holds a digest over all that it is made of, so that a changed
pool is another application beside the old one, which goes when it is no longer needed.
"""

import json
from collections.abc import Collection
from hashlib import sha256
from typing import Any

from workers.catalog import EMBED, Catalog, Model, Pool
from workers.engines.names import EMBEDDING, VLLM
from workers.ray_api import AppDetails, ServeDetails
from workers.ray_file import RayFile
from workers.settings import WorkersSettings

DEPLOYMENT = "engine"
DIGEST_CHARS = 8

App = dict[str, Any]


def app_name(pool: Pool, catalog: Catalog, settings: WorkersSettings) -> str:
    """The application of the pool as the catalog wants it now."""
    name: str = _wanted(pool, catalog, settings)["name"]
    return name


def older_apps(pool: Pool, wanted: str, details: ServeDetails) -> tuple[str, ...]:
    """Applications that ran this pool before the wanted one and are not being deleted."""
    return tuple(
        name
        for name, app in details.applications.items()
        if name != wanted and app.status != "DELETING" and pool_of(app) == pool.name
    )


def serve_config(
    catalog: Catalog,
    details: ServeDetails,
    settings: WorkersSettings,
    *,
    place: RayFile,
    done: Collection[str] = (),
    rebuild: bool = False,
) -> dict[str, Any] | None:
    """The document to PUT, or None when Serve already runs just these applications.

    `done`: older applications that may go. `rebuild`: put it again although nothing changed, so
    that Serve retries what it gave up on.
    """
    deployed = details.applications
    wanted = [_wanted(pool, catalog, settings) for pool in catalog.own_pools]
    older = [
        deployed[name].deployed_app_config
        for pool, app in zip(catalog.own_pools, wanted, strict=True)
        for name in older_apps(pool, app["name"], details)
        if name not in done
    ]
    apps = [_as_deployed(app, deployed.get(app["name"])) for app in wanted]
    apps += [app for app in older if app is not None]
    settled = all(_is_deployed(app, deployed.get(app["name"])) for app in apps)
    surplus = any(_is_surplus(name, app, apps) for name, app in deployed.items())
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
    made_of = {
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
    digest = sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARS]
    name = f"pool-{pool.name}.{digest}"
    return {"name": name, "route_prefix": f"/{name}"} | made_of


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


def _as_deployed(wanted: App, deployed: AppDetails | None) -> App:
    """Serve applies the count in the document only when the application changes: one that is there
    keeps the document it was deployed with."""
    if deployed is None or deployed.deployed_app_config is None:
        return wanted
    return deployed.deployed_app_config


def pool_of(app: AppDetails) -> str | None:
    """The pool that an application of ours runs."""
    arguments = (app.deployed_app_config or {}).get("args")
    return arguments.get("pool") if isinstance(arguments, dict) else None


def _is_deployed(app: App, deployed: AppDetails | None) -> bool:
    return deployed is not None and deployed.deployed_app_config == app


def _is_surplus(name: str, app: AppDetails, kept: list[App]) -> bool:
    return app.status != "DELETING" and name not in {k["name"] for k in kept}
