"""The state of Ray Serve, over its dashboard's REST API. Nothing is written here.

Every call carries the cluster's token. Raises RayUnavailable when the cluster cannot answer, and
RayRefused when it understood and refused.
"""

from typing import TypeVar

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
    node_id: str | None = None
    """Ray's own."""


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
        raw = await self._get("/api/serve/applications/")
        try:
            return msgspec.json.decode(raw, type=ServeDetails)
        except msgspec.DecodeError as odd:
            raise RayUnavailable(f"serve details in an unknown shape: {odd}") from odd

    async def _get(self, path: str) -> bytes:
        try:
            async with self._session.get(
                self._base + path, headers=self._headers, timeout=self._timeout
            ) as reply:
                content = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as unreachable:
            reason = str(unreachable) or type(unreachable).__name__
            raise RayUnavailable(f"GET {path}: {reason}") from unreachable
        if reply.status >= 500:
            raise RayUnavailable(f"GET {path}: {reply.status} {_excerpt(content)}")
        if reply.status >= 400:
            raise RayRefused(f"GET {path}: {reply.status} {_excerpt(content)}")
        return content


def _excerpt(content: bytes) -> str:
    return content[:500].decode(errors="replace").strip()
