"""What a decision costs: `python -m bench.decide`.

CPU of one `decide` with kept plans, as a gateway calls it, for fleets of 5, 20 and 50 pools of one
model: warm, full, starting, cold, spot and outside in turn. Each decision is timed by itself, by
the processor time of this thread, so that a loaded host shows less. `changed`: one pool is in
another state at each decision, as under traffic. `fleet told anew`: all of them are. `prefix`: a
fifth of the pools has a part of the prompt. Rules: what ten rules in CEL add to a match, of which
the last one holds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from statistics import median, quantiles
from time import thread_time_ns
from typing import TypeVar

from gateway.call.request import GeneratingRequest
from gateway.policies.attributes import attributes_of
from gateway.policies.document import compiled
from gateway.wire.bodies.chat import parse_chat
from routing.decide import decide
from routing.economics.rates import PRIOR_LOSSES_PER_S
from routing.plans import Plans
from routing.policy.action import Action, ColdStart, Matched
from routing.types import (
    Call,
    CapacityClass,
    Decision,
    FleetSnapshot,
    Model,
    Pool,
    PoolState,
    Replica,
    ReplicaState,
    Tier,
)

T = TypeVar("T")
NOW_S = 1_790_000_000.0
MODEL = Model("m", None, 32_768, 4_096, 1, 0.5)
CLASSES = (CapacityClass.RESERVED, CapacityClass.SPOT, CapacityClass.EXTERNAL)
STATES = (ReplicaState.WARM, ReplicaState.WARM, ReplicaState.STARTING, ReplicaState.COLD)
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Who bakes bread?"}]}'
CALL = Call(
    *("req", "org", "proj", "key", "m", ("m",), Tier.DEFAULT, True),
    *({"m": 400}, 400, NOW_S, NOW_S + 120.0),
)
HOLDS = ['req.service_tier == "default"', "req.est_tokens < 32000", 'tenant.organization != "x"']


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5_000)
    rounds = parser.parse_args().rounds
    for count in (5, 20, 50):
        for name, changes in (("same", 0), ("changed", 1), ("fleet told anew", count)):
            print(json.dumps({"pools": count, "fleet": name} | of_fleet(count, changes, rounds)))
        known = {f"pool-{number}": 200 for number in range(0, count, 5)}
        call = CALL._replace(prefix_tokens=known)
        figures = of_fleet(count, 0, rounds, call)
        print(json.dumps({"pools": count, "fleet": "same, prefix"} | figures))
    print(json.dumps({"match": "no rule"} | of_rules(0, rounds)))
    print(json.dumps({"match": "10 rules"} | of_rules(10, rounds)))


def of_fleet(count: int, changes: int, rounds: int, call: Call = CALL) -> dict[str, float]:
    """Of a default rule, and of one that has a cold start, which compares more."""
    plans, states = Plans(), [_state(number) for number in range(count)]
    matched = Matched("rule", 1, Action(cold_start=ColdStart(1.5)))
    models, turn = {"m": MODEL}, 0

    def prepare() -> FleetSnapshot:
        nonlocal turn
        for _ in range(changes):
            turn = (turn + 1) % count
            states[turn] = replace(states[turn])
        return FleetSnapshot(NOW_S, models, tuple(states), {"pool-0": 3, "pool-4": 1})

    def one(snapshot: FleetSnapshot) -> None:
        decided = decide(call, snapshot, matched, turn, plans)
        assert isinstance(decided, Decision)
        assert decided.chosen.eligible

    return _timed(prepare, one, rounds)


def of_rules(count: int, rounds: int) -> dict[str, float]:
    """Attributes and match; the last of the rules holds."""
    others = [[*HOLDS[:2], f'tenant.project == "p{at}"'] for at in range(count - 1)]
    whens = [*others, HOLDS][:count]
    rules = [{"id": f"r{at}", "when": when, "route": {}} for at, when in enumerate(whens)]
    document = {"apiVersion": "gateway/v1", "kind": "RoutingPolicy", "rules": rules}
    policy = compiled(json.dumps(document | {"default": {"route": {}}}), revision=1)
    request: GeneratingRequest = parse_chat(BODY)

    def one(call: Call) -> None:
        policy.match(attributes_of(call, request, {}, 1.0, NOW_S))

    return _timed(lambda: CALL, one, rounds)


def _timed(prepare: Callable[[], T], one: Callable[[T], None], rounds: int) -> dict[str, float]:
    took_us = []
    for _ in range(rounds):
        given = prepare()
        begun_ns = thread_time_ns()
        one(given)
        took_us.append((thread_time_ns() - begun_ns) / 1000)
    return {
        "median_us": round(median(took_us), 1),
        "p99_us": round(quantiles(took_us, n=100)[98], 1),
    }


def _state(number: int) -> PoolState:
    capacity_class, state = CLASSES[number % 3], STATES[number % 4]
    pool = Pool(
        *(f"pool-{number}", "m", "fp16", capacity_class, 4, 8),
        *(20_000 + number, 500_000_000, 2_000_000_000, 8.0),
    )
    if pool.is_external:
        return PoolState(pool, (), 0)
    since_ms = round(NOW_S * 1000) - 2_000
    replicas = [
        Replica(f"{pool.name}-{at}", "http://127.0.0.2", state, since_ms, number % 9, 0)
        for at in range(2)
        if state is not ReplicaState.COLD
    ]
    losses_per_s = PRIOR_LOSSES_PER_S if capacity_class is CapacityClass.SPOT else None
    return PoolState(pool, tuple(replicas), 0, losses_per_s=losses_per_s)


if __name__ == "__main__":
    main()
