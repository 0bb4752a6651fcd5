"""Ray Serve over its dashboard's REST API: read the state, deploy pools, set replica counts.

This is the only way to Ray's control plane. It knows the wire, and does not know what should run.
Every call carries the cluster's token. Raises RayUnavailable when the cluster cannot answer, and
RayRefused when it understood and refused.
"""

from typing import Any, TypeVar

import aiohttp
import msgspec

T = TypeVar("T")


class RayUnavailable(Exception):
    """The dashboard is out of reach, or its controller is restarting; trying again may help."""


class RayRefused(Exception):
    """The dashboard refused this request."""


class ReplicaDetails(msgspec.Struct, frozen=True):
    replica_id: str
    actor_name: str
    state: str
    start_time_s: float
    pid: int | None = None
    node_instance_id: str | None = None
    """Of the provider of nodes; None on the head."""


class DeploymentDetails(msgspec.Struct, frozen=True):
    name: str
    status: str
    message: str = ""
    target_num_replicas: int | None = None
    replicas: tuple[ReplicaDetails, ...] = ()
    recent_dead_replicas: tuple[ReplicaDetails, ...] = ()


class AppDetails(msgspec.Struct, frozen=True):
    name: str
    status: str
    message: str = ""
    deployed_app_config: dict[str, Any] | None = None
    deployments: dict[str, DeploymentDetails] = {}


class Target(msgspec.Struct, frozen=True):
    ip: str
    port: int
    name: str


class TargetGroup(msgspec.Struct, frozen=True):
    targets: tuple[Target, ...] = ()
    route_prefix: str = ""
    protocol: str = "HTTP"


class ServeDetails(msgspec.Struct, frozen=True):
    """The state of Serve. Serve adds fields freely; fields that are not named here are ignored."""

    applications: dict[str, AppDetails] = {}
    target_groups: tuple[TargetGroup, ...] = ()
    foreign: tuple[dict[str, Any], ...] = ()
    """Documents of applications that are not ours (`workers.existing.applications`)."""

    @property
    def nodes(self) -> dict[str, str | None]:
        """The node of each replica, as its provider calls it."""
        return {
            replica.replica_id: replica.node_instance_id or None
            for app in self.applications.values()
            for deployment in app.deployments.values()
            for replica in deployment.replicas
        }

    def address_of(self, actor_name: str) -> str | None:
        """The replica's own HTTP address with its route prefix, once it listens."""
        for group in self.target_groups:
            for target in group.targets:
                if target.name == actor_name and group.protocol == "HTTP":
                    return f"http://{target.ip}:{target.port}{group.route_prefix.rstrip('/')}"
        return None


class RayApi:
    """The REST client of one cluster. `session` is the caller's and outlives it."""

    def __init__(
        self, session: aiohttp.ClientSession, *, dashboard_url: str, token: str, timeout_s: float
    ) -> None:
        self._session = session
        self._base = dashboard_url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def details(self) -> ServeDetails:
        raw = await self._call("GET", "/api/serve/applications/")
        try:
            return msgspec.json.decode(raw, type=ServeDetails)
        except msgspec.DecodeError as odd:
            raise RayUnavailable(f"serve details in an unknown shape: {odd}") from odd

    async def deploy(self, config: dict[str, Any]) -> None:
        """Make these applications the only ones. Unchanged ones are left alone."""
        await self._call("PUT", "/api/serve/applications/", config)

    async def scale(self, app: str, deployment: str, target: int) -> None:
        path = f"/api/v1/applications/{app}/deployments/{deployment}/scale"
        await self._call("POST", path, {"target_num_replicas": target})

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        try:
            async with self._session.request(
                method,
                self._base + path,
                json=body,
                headers=self._headers,
                timeout=self._timeout,
            ) as reply:
                content = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as unreachable:
            reason = str(unreachable) or type(unreachable).__name__
            raise RayUnavailable(f"{method} {path}: {reason}") from unreachable
        if reply.status >= 500:
            raise RayUnavailable(f"{method} {path}: {reply.status} {_excerpt(content)}")
        if reply.status >= 400:
            raise RayRefused(f"{method} {path}: {reply.status} {_excerpt(content)}")
        return content


def _excerpt(content: bytes) -> str:
    return content[:500].decode(errors="replace").strip()
