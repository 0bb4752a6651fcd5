"""Pools as Serve applications: one for each generation of a pool.

Pure. Owns what is the same for every pool: names, the external scaler, health checks. An
application never changes. Its name holds a digest of everything that it is made of. So a changed
pool is another application beside the old one, which goes when it is no longer needed.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from workers.catalog import EMBED, Catalog, Model, Pool
from workers.engines.names import EMBEDDING, SIMULATED, VLLM
from workers.existing.applications import app_env, owner
from workers.nodes.node_type import DRAIN_S
from workers.nodes.placement import bundles_of, labels_of, types_of
from workers.ray.app_names import DIGEST_CHARS, name_of_app, pool_of
from workers.ray.serve_api import AppDetails, ServeDetails
from workers.settings import WorkersSettings
from workers.weights.wanted import WantedWeights

DEPLOYMENT = "engine"
NODE_ID = "ray.io/node-id"
"""A label that Ray gives every node."""
NODES_WISHED_MAX = 32
OF_NOTICE = 0.8
"""The share of a notice that replicas have to finish their calls after Serve stops them."""

App = dict[str, Any]


def app_name(pool: Pool, catalog: Catalog, settings: WorkersSettings) -> str:
    """The name of the application that the catalog describes for the pool now."""
    name: str = _wanted(pool, catalog, settings)["name"]
    return name


def older_apps(pool: Pool, newest: str, details: ServeDetails) -> tuple[str, ...]:
    """Applications that ran this pool before the newest one and are not being deleted."""
    return tuple(
        name
        for name, app in details.applications.items()
        if name != newest and app.status != "DELETING" and pool_of(name) == pool.name
    )


@dataclass(frozen=True, slots=True)
class AppChanges:
    """What brings Serve to the catalog: applications to deploy, and names of those to delete."""

    deploy: tuple[App, ...] = ()
    delete: tuple[str, ...] = ()


def app_changes(
    catalog: Catalog,
    details: ServeDetails,
    settings: WorkersSettings,
    *,
    done: Collection[str] = (),
    later: Collection[str] = (),
    holders: Callable[[str], Collection[str]] = lambda id: (),
) -> AppChanges:
    """`done`: older applications that may go. `later`: applications that are not deployed yet.
    `holders`: the nodes that have a checkpoint, by Ray's ids of them. Applications that are not
    ours are not looked at."""
    deployed = details.applications
    wanted = [_wanted(pool, catalog, settings) for pool in catalog.own_pools]
    needed = {app["name"] for app in wanted if app["name"] not in later}
    for pool, app in zip(catalog.own_pools, wanted, strict=True):
        needed |= {name for name in older_apps(pool, app["name"], details) if name not in done}
    return AppChanges(
        deploy=tuple(
            _near_weights(app, holders)
            for app in wanted
            if app["name"] in needed and not _is_there(app["name"], deployed)
        ),
        delete=tuple(
            name
            for name in deployed
            if pool_of(name) is not None and name not in needed and _is_there(name, deployed)
        ),
    )


def _near_weights(app: App, holders: Callable[[str], Collection[str]]) -> App:
    """The application with a wish for nodes that have its checkpoint, which any of its nodes stands
    in for. A wish is no part of its name, so that what nodes fetch makes no other application."""
    nodes = sorted(holders(app["args"]["weights"]["id"])) if "weights" in app["args"] else []
    options = app["deployments"][0]["ray_actor_options"]
    if not nodes or "label_selector" not in options:
        return app
    labels = options["label_selector"]
    wish = {
        "label_selector": labels | {NODE_ID: f"in({', '.join(nodes[:NODES_WISHED_MAX])})"},
        "fallback_strategy": [{"label_selector": labels}],
    }
    return app | {"deployments": [app["deployments"][0] | {"ray_actor_options": options | wish}]}


def _wanted(pool: Pool, catalog: Catalog, settings: WorkersSettings) -> App:
    model = catalog.model_of(pool)
    engine = engine_of(pool, model, settings)
    controller = settings.controller
    made_of = {
        **app_env(settings),
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
            **_roofline(pool, engine, catalog),
            **_weights(pool, model, settings),
        },
        "deployments": [
            {
                "name": DEPLOYMENT,
                "num_replicas": 1,
                "graceful_shutdown_timeout_s": graceful_shutdown_s(pool, settings),
                "health_check_period_s": controller.health_check_period_s,
                "health_check_timeout_s": controller.health_check_timeout_s,
                **_placement(pool, settings),
                "ray_actor_options": _actor_options(pool, engine, settings),
            }
        ],
    }
    digest = sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARS]
    name = name_of_app(pool.name, digest, owner(settings))
    return {"name": name, "route_prefix": f"/{name}"} | made_of


def engine_of(pool: Pool, model: Model, settings: WorkersSettings) -> str:
    """The engine of a pool: its own choice, else the one for its model's task, else the one in the
    settings."""
    if pool.engine is not None:
        return pool.engine
    return EMBEDDING if model.task == EMBED else settings.engine


def _engine_arguments(engine: str, settings: WorkersSettings) -> dict[str, Any]:
    reserved = {"kv_cache_mb", "gpu_memory_share", "dtype", "sleep_level"}
    return settings.vllm.model_dump(include=reserved) if engine == VLLM else {}


def _roofline(pool: Pool, engine: str, catalog: Catalog) -> dict[str, Any]:
    if engine != SIMULATED or pool.name not in catalog.rooflines:
        return {}
    return {"roofline": msgspec.to_builtins(catalog.rooflines[pool.name])}


def _weights(pool: Pool, model: Model, settings: WorkersSettings) -> dict[str, Any]:
    """What a replica fetches its checkpoint with, where nodes do not all have its folder."""
    types = types_of(pool, settings.nodes)
    is_away = settings.ray.weights_url or settings.ray.address or model.source
    if model.checksum is None or not (is_away or any(type.weights_gb for type in types)):
        return {}
    wanted = WantedWeights(
        model.checksum, settings.weights_url, model.source, settings.ray.weights_gb
    )
    return {"weights": msgspec.to_builtins(wanted)}


def _placement(pool: Pool, settings: WorkersSettings) -> dict[str, Any]:
    """The nodes of a replica that spans several: one bundle on each, taken all together or not at
    all. The replica itself runs in the first one."""
    if pool.num_nodes == 1:
        return {}
    bundles = bundles_of(pool)
    placement = {"placement_group_bundles": bundles, "placement_group_strategy": "STRICT_SPREAD"}
    labels = labels_of(pool, settings.nodes)
    if not labels:
        return placement
    return placement | {"placement_group_bundle_label_selector": [labels] * len(bundles)}


def _actor_options(pool: Pool, engine: str, settings: WorkersSettings) -> dict[str, Any]:
    """The resources that a replica asks of the cluster. It asks for GPUs and memory only where a
    pool names some. It has another interpreter only for an engine that lives in an environment of
    its own."""
    first = bundles_of(pool)[0]
    options: dict[str, Any] = {"num_cpus": first["CPU"]}
    if pool.num_gpus:
        options["num_gpus"] = first["GPU"]
    if "memory" in first:
        options["memory"] = first["memory"]
    if pool.num_nodes == 1 and (labels := labels_of(pool, settings.nodes)):
        options["label_selector"] = labels
    if engine == VLLM and settings.ray.address is None:
        options["runtime_env"] = {"py_executable": str(settings.vllm.interpreter)}
    return options


def graceful_shutdown_s(pool: Pool, settings: WorkersSettings) -> float:
    """Serve stops a replica of a draining node so long before the deadline. So it is well below
    every notice that the nodes of the pool get."""
    notices = [type.notice_s or DRAIN_S for type in types_of(pool, settings.nodes)]
    return min([settings.controller.graceful_shutdown_s, *(s * OF_NOTICE for s in notices)])


def _is_there(name: str, deployed: Mapping[str, AppDetails]) -> bool:
    return name in deployed and deployed[name].status != "DELETING"
