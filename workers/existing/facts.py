"""What a probe says of a cluster. Plain dataclasses, because a cluster may have nothing but Ray."""

from dataclasses import dataclass

ANSWER = "sluice-facts "
"""In front of the line with the answer, among whatever else a job prints."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """`missing`: modules that replicas import and this node does not have."""

    ip: str
    python: str
    ray: str
    has_cpus: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServeFacts:
    """`is_there`: Ray Serve is installed. `runs`: it was started; else the rest is what it would
    start with."""

    is_there: bool = True
    runs: bool = False
    direct_ingress: bool = False
    haproxy: bool = False
    proxy_location: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    serve: ServeFacts
    nodes: tuple[NodeFacts, ...]
