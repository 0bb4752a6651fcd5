"""What a cluster that is somebody else's lacks, in lines that say what to do. Pure."""

from collections.abc import Iterator, Sequence

from workers.engines.names import VLLM
from workers.existing.facts import ClusterFacts, NodeFacts, ServeFacts

PYTHON_LEAST = (3, 11)
MODULES = ("msgspec", "safetensors", "tokenizers", "torch", "transformers")
VLLM_MODULES = ("msgspec", "vllm")


def modules_of(engine: str) -> tuple[str, ...]:
    """What replicas of the engine import, besides Ray Serve."""
    return VLLM_MODULES if engine == VLLM else MODULES


def release(version: str) -> str:
    """2.60.0 -> 2.60. Releases of one line speak the same REST API and have the same insides."""
    return ".".join(version.split(".")[:2])


def misfits_of_version(theirs: str, ours: str) -> Iterator[str]:
    if release(theirs) != release(ours):
        yield (
            f"Ray {theirs} runs there, and this Sluice needs {release(ours)}.x:"
            f" start its nodes with ray[serve]=={ours}"
        )


def misfits(facts: ClusterFacts, ours: str) -> Iterator[str]:
    """Every reason why our applications cannot run there. `ours`: the version of Ray here."""
    yield from _of_serve(facts.serve, ours)
    yield from _of_nodes(facts.nodes)


def notices(facts: ClusterFacts, *, has_tokens: bool) -> Iterator[str]:
    """What is good to know where our applications can run."""
    if not has_tokens:
        yield (
            "the cluster asks for no token, so whoever reaches its dashboard can run code there and"
            " read the worker secret: start its nodes with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        )
    if not any(node.has_cpus for node in facts.nodes):
        yield "no node has CPUs yet: the first replica waits until the cluster adds one"
    for node in facts.nodes:
        if node.has_cpus and node.missing:
            yield f"no replica can start on node {node.ip}, which lacks {', '.join(node.missing)}"


def _of_serve(serve: ServeFacts, ours: str) -> Iterator[str]:
    if not serve.is_there:
        yield f"Ray Serve is not installed there: start its nodes with ray[serve]=={ours}"
        return
    if serve.haproxy:
        yield (
            "Ray Serve leads every call there through HAProxy: start its nodes without"
            f" RAY_SERVE_ENABLE_HA_PROXY{_again(serve)}"
        )
    elif not serve.direct_ingress:
        yield (
            "direct ingress of Ray Serve is off there: start its nodes with"
            f" RAY_SERVE_ENABLE_DIRECT_INGRESS=1{_again(serve)}"
        )
    if serve.proxy_location == "Disabled":
        yield (
            "Ray Serve was started with proxy_location Disabled there, and gives replicas no HTTP"
            " port: start it with HeadOnly or EveryNode"
        )


def _again(serve: ServeFacts) -> str:
    return ", and Serve again (`serve shutdown`)" if serve.runs else ""


def _of_nodes(nodes: Sequence[NodeFacts]) -> Iterator[str]:
    least = ".".join(map(str, PYTHON_LEAST))
    for python in sorted({node.python for node in nodes}):
        if tuple(map(int, python.split(".")[:2])) < PYTHON_LEAST:
            yield f"Python {python} runs there, and Sluice needs {least} or newer"
    able = [node for node in nodes if node.has_cpus]
    if able and all(node.missing for node in able):
        missing = sorted(set(able[0].missing).union(*(node.missing for node in able)))
        yield (
            f"its nodes lack Python packages: install {', '.join(missing)} there, or name them in"
            " packages of [ray]"
        )
