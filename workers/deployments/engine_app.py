"""The Ray Serve application of one pool: one deployment, `engine`, whose replicas serve the
worker's ASGI app. It turns arguments into an engine, and lets Serve start, health-check and stop
it. It asks Serve for no autoscaling: the controller alone sets replica counts. Deployed by
`import_path: workers.deployments.engine_app:build`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from pydantic import BaseModel, ConfigDict
from ray import serve
from ray.serve.schema import LoggingConfig

from routing.economics.roofline import Roofline
from workers.engines.base import EngineSettings
from workers.weights.wanted import WantedWeights, WeightsHere

if TYPE_CHECKING:
    from workers.deployments.parts import Parts

DEPLOYMENT = "engine"
SECRET_ENV = "SLUICE_WORKER_SECRET"
# Beside generation calls there are the controller's: stats, drain, health.
CONTROL_CALLS_MAX = 16
# A share, so that several pools fit on a small machine; a pool names its own in its settings.
NUM_CPUS = 0.1


class EngineAppArgs(BaseModel):
    """What `PUT /api/serve/applications/` passes as `args`: the pool, and the engine's bounds.
    Replica counts, resources and health checks are overridden where Serve has fields for them."""

    model_config = ConfigDict(extra="forbid")

    pool: str
    model_path: Path
    engine: str = "continuous"
    slots: int = EngineSettings.slots
    queue_max: int = EngineSettings.queue_max
    context_tokens: int = EngineSettings.context_tokens
    prefill_tokens_max: int = EngineSettings.prefill_tokens_max
    block_tokens: int = EngineSettings.block_tokens
    cache_tokens_max: int = EngineSettings.cache_tokens_max
    frame_interval_s: float = EngineSettings.frame_interval_s
    threads: int = EngineSettings.threads
    kv_cache_mb: int = EngineSettings.kv_cache_mb
    gpu_memory_share: float = EngineSettings.gpu_memory_share
    dtype: str = EngineSettings.dtype
    sleep_level: int = EngineSettings.sleep_level
    roofline: Roofline | None = None
    weights: WantedWeights | None = None

    def engine_settings(self, folder: Path | None = None) -> EngineSettings:
        """`folder`: where the checkpoint is on this node."""
        others = ("pool", "engine", "weights")
        bounds = {name: value for name, value in self if name not in others}
        return EngineSettings(**bounds | {"model_path": folder or self.model_path})


@serve.ingress()
class EngineReplica:
    """Serve builds the app below in the replica and runs its lifespan, which starts the engine."""

    def __init__(self, args: dict[str, Any]) -> None:
        from workers.deployments.parts import parts_named
        from workers.deployments.serve_port import bind_to_node

        bind_to_node()
        parsed = EngineAppArgs.model_validate(args)
        self._weights = weights_of_replica(parsed)
        settings = parsed.engine_settings(self._weights.folder)
        self._parts = parts_named(parsed.engine, settings)

    def __serve_build_asgi_app__(self) -> Any:
        return worker_app(self._parts, self._weights)

    def check_health(self) -> None:
        """Serve replaces a replica whose check raises."""
        reason = self._parts.engine.health()
        if reason is not None:
            raise RuntimeError(reason)


def worker_app(parts: Parts, weights: WeightsHere) -> Any:
    """What Serve runs in the replica. The start of its worker ends with that of the engine."""
    from workers.deployments.server import WorkerServer
    from workers.ray.worker_start import end_start

    return WorkerServer(
        engine=parts.engine,
        doors=parts.doors,
        secret=os.environ[SECRET_ENV],
        fetch_s=weights.fetch_s,
        started=end_start,
        now_s=time.monotonic,  # noqa: TID251 the replica is a composition root
    )


def weights_of_replica(args: EngineAppArgs) -> WeightsHere:
    """The checkpoint on the node of this replica. Raises WeightsError."""
    if args.weights is None:
        return WeightsHere(args.model_path)
    from workers.weights.replica import weights_here

    return weights_here(
        *(args.model_path, args.weights),
        node=ray.get_runtime_context().get_node_id(),
        replica=serve.get_replica_context().replica_id.unique_id,
        secret=os.environ[SECRET_ENV],
    )


def build(args: dict[str, Any]) -> serve.Application:
    """The application of one pool."""
    parsed = EngineAppArgs.model_validate(args)
    deployment = serve.deployment(
        EngineReplica,
        name=DEPLOYMENT,
        num_replicas=1,
        max_ongoing_requests=parsed.slots + parsed.queue_max + CONTROL_CALLS_MAX,
        ray_actor_options={"num_cpus": NUM_CPUS},
        graceful_shutdown_wait_loop_s=0.1,
        health_check_period_s=2.0,
        health_check_timeout_s=10.0,
        logging_config=LoggingConfig(enable_access_log=False),
    )
    return deployment.bind(parsed.model_dump(mode="json"))
