"""`python -m workers.existing.probe MODULES`: what a cluster is like, seen from inside.

Runs as a job on the head of a cluster that is somebody else's. Prints one line of JSON, which
`workers.existing.fitness` reads. Needs nothing but Ray, because what else is there is the question.
"""

import importlib.util
import json
import platform
import sys
from dataclasses import asdict
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from workers.existing.facts import ANSWER, ClusterFacts, NodeFacts, ServeFacts

NODES_MAX = 16
"""So many nodes are looked at: those of one image are alike."""
NODE_PATIENCE_S = 60.0
SERVE_NAMESPACE = "serve"
SERVE_CONTROLLER = "SERVE_CONTROLLER_ACTOR"


def main(modules: list[str]) -> None:
    ray.init(logging_level="ERROR", log_to_driver=False)
    facts = ClusterFacts(serve=_serve_facts(), nodes=tuple(_node_facts(modules)))
    print(f"{ANSWER}{json.dumps(asdict(facts))}", flush=True)


def _node_facts(modules: list[str]) -> list[NodeFacts]:
    nodes = [node for node in ray.nodes() if node["Alive"]][:NODES_MAX]
    look = ray.remote(num_cpus=0, max_retries=0)(_look)
    looks = {
        look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(node["NodeManagerAddress"], "CPU" in node["Resources"], modules): node
        for node in nodes
    }
    ready, _ = ray.wait(list(looks), num_returns=len(looks), timeout=NODE_PATIENCE_S)
    return [facts for each in ready if (facts := _answer(each)) is not None]


def _answer(look: Any) -> NodeFacts | None:
    """None for a node that went away meanwhile."""
    try:
        facts: NodeFacts = ray.get(look)
    except ray.exceptions.RayError:
        return None
    return facts


def _look(ip: str, has_cpus: bool, modules: list[str]) -> NodeFacts:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return NodeFacts(ip, platform.python_version(), ray.__version__, has_cpus, tuple(missing))


def _serve_facts() -> ServeFacts:
    """Of the controller of Serve, whose variables decide. Of this process, which has those of the
    head, where Serve does not run yet."""
    if importlib.util.find_spec("fastapi") is None:
        return ServeFacts(is_there=False)
    try:
        controller = ray.get_actor(SERVE_CONTROLLER, namespace=SERVE_NAMESPACE)
    except ValueError:
        return _ingress(None)
    facts: ServeFacts = ray.get(controller.__ray_call__.remote(_ingress), timeout=NODE_PATIENCE_S)
    return facts


def _ingress(controller: Any) -> ServeFacts:
    from ray.serve._private import constants

    location = None if controller is None else controller.get_proxy_location()
    return ServeFacts(
        runs=controller is not None,
        direct_ingress=constants.RAY_SERVE_ENABLE_DIRECT_INGRESS,
        haproxy=constants.RAY_SERVE_ENABLE_HA_PROXY,
        proxy_location=None if location is None else str(getattr(location, "value", location)),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
