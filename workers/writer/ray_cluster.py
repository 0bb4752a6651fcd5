"""Writes to a Ray cluster from a process of it: Ray Serve's own calls for one application.

An application is built here and given to Serve by itself, as `serve.run` does, not as part of a
document of all applications. So applications of others stay as they are, and a document that others
deploy takes none of ours away. Private parts of Ray are pinned with Ray.
"""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray._common.utils import import_attr
from ray._private.worker import global_worker
from ray.autoscaler.sdk import request_resources
from ray.core.generated import autoscaler_pb2
from ray.exceptions import RayError, RayTaskError
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary, serve_start
from ray.serve._private.build_app import build_app
from ray.serve._private.common import DeploymentID
from ray.serve._private.deploy_utils import get_deploy_args
from ray.serve.deployment import Application
from ray.serve.generated.serve_pb2 import ApplicationArgs, DeploymentArgs

from workers.ray.app_names import pool_of
from workers.ray.serve_api import RayRefused, RayUnavailable
from workers.writer.writes import (
    DeleteApp,
    DeployApp,
    DrainNode,
    RequestNodes,
    SetReplicas,
    Write,
)

log = logging.getLogger(__name__)

PREEMPTION = "DRAIN_NODE_REASON_PREEMPTION"


@dataclass(slots=True)
class ServeCluster:
    """`ray.init` was called. Serve listens on `proxy_host`, if it has to be started. `nodes` is the
    folder of the nodes of this machine."""

    proxy_host: str
    proxy_port: int
    nodes: Path | None
    _serve: Any = None

    async def start(self) -> None:
        """Start Serve, unless it runs. Raises RayUnavailable."""
        await self._controller()

    async def apply(self, write: Write) -> None:
        """Returns when the cluster has it. Raises RayRefused and RayUnavailable."""
        try:
            await self._apply(write)
        except RayTaskError as refused:
            raise RayRefused(_last_line(str(refused))) from refused
        except (RayError, OSError, TimeoutError) as away:
            self._serve = None
            raise RayUnavailable(_last_line(str(away) or type(away).__name__)) from away

    async def _apply(self, write: Write) -> None:
        match write:
            case DeployApp(app):
                arguments = await asyncio.to_thread(_built, app)
                await (await self._controller()).deploy_applications.remote(*arguments)
            case DeleteApp(name):
                _check_ours(name)
                await (await self._controller()).delete_apps.remote([name])
            case SetReplicas(app, deployment, count):
                id = DeploymentID(name=deployment, app_name=app)
                await (await self._controller()).update_deployment_replicas.remote(id, count)
            case DrainNode():
                await asyncio.to_thread(self._drain, write)
            case RequestNodes(bundles, labels):
                selectors = list(labels) or None
                await asyncio.to_thread(
                    request_resources,
                    bundles=list(bundles),
                    bundle_label_selectors=selectors,
                )

    async def _controller(self) -> Any:
        if self._serve is None:
            client = await asyncio.to_thread(
                serve_start,
                http_options={"host": self.proxy_host, "port": self.proxy_port},
                # With no proxy at all Serve gives replicas no HTTP port; one idle proxy is the
                # least.
                proxy_location="HeadOnly",
            )
            self._serve = client._controller
        return self._serve

    def _drain(self, drain: DrainNode) -> None:
        if self.nodes is not None:
            _note(self.nodes, drain)
            return
        accepted, why_not = global_worker.gcs_client.drain_node(
            drain.node,
            autoscaler_pb2.DrainNodeReason.Value(PREEMPTION),
            drain.why,
            drain.deadline_ms,
        )
        if not accepted:
            raise RayRefused(str(why_not))


def _note(path: Path, drain: DrainNode) -> None:
    """The node itself tells Ray then."""
    # Not at the top: clusters of others lack the libraries.
    from workers.nodes.folder import NodesFolder, Notice

    folder = NodesFolder(path)
    node = folder.node(drain.node)
    if node is None or not node.is_alive:
        raise RayRefused(f"no node {drain.node} runs")
    folder.note_notice(drain.node, Notice(drain.deadline_ms, drain.why, drain.at_ms))


def _built(app: dict[str, Any]) -> tuple[dict[str, list[bytes]], dict[str, bytes]]:
    """What Serve takes for the application, and for nothing else. Raises RayRefused."""
    name = app["name"]
    _check_ours(name)
    try:
        built = build_app(
            _application(app),
            name=name,
            route_prefix=app["route_prefix"],
            default_runtime_env=app.get("runtime_env"),
            external_scaler_enabled=app["external_scaler_enabled"],
        )
    except Exception as wrong:
        raise RayRefused(f"{app['import_path']}: {wrong}") from wrong
    [deployment] = built.deployments
    arguments = get_deploy_args(
        deployment.name,
        ingress=True,
        replica_config=deployment._replica_config,
        deployment_config=deployment._deployment_config,
        version=name,
        route_prefix=built.route_prefix,
    )
    of_deployment = DeploymentArgs(
        deployment_name=deployment.name,
        deployment_config=arguments["deployment_config_proto_bytes"],
        replica_config=arguments["replica_config_proto_bytes"],
        deployer_job_id=arguments["deployer_job_id"],
        route_prefix=built.route_prefix,
        ingress=True,
    )
    of_app = ApplicationArgs(external_scaler_enabled=built.external_scaler_enabled)
    return {name: [of_deployment.SerializeToString()]}, {name: of_app.SerializeToString()}


def _application(app: dict[str, Any]) -> Application:
    """What its builder makes of the arguments, with the options that the application names."""
    builder = import_attr(app["import_path"])
    bound = call_user_app_builder_with_args_if_necessary(builder, app["args"])._bound_deployment
    [options] = app["deployments"]
    return Application(bound.options(**options))


def _check_ours(name: str) -> None:
    if pool_of(name) is None:
        raise RayRefused(f"{name} is not an application of Sluice")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else text
