"""Own workers and servers outside are given times of their own."""

from __future__ import annotations

import json
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.call.open_call import OpenCall
from gateway.catalog.fleet import FleetKeeper
from gateway.health.breakers import Breakers
from gateway.replicas.known_prompts import KnownPrompts
from gateway.replicas.placement import Placement
from gateway.upstream.openai import Patience
from gateway.upstream.places import Places
from gateway.wire.bodies.chat import parse_chat
from routing.plans import Plans
from routing.policy.action import Action
from routing.replicas.blocks import NO_BEGINNING
from routing.types import CapacityClass, PoolState, Replica, ReplicaState
from tests.routing.fleets import NOW_S, call, pool
from workers.controller.queue import WaitingRoom

OWN, OUTSIDE = Patience(first_token_s=1.0, idle_s=2.0), Patience(first_token_s=3.0, idle_s=4.0)
WARM = Replica("r1", "http://127.0.0.1:9", ReplicaState.WARM, 0, 0, 0)
BODY = b'{"model": "small", "messages": [{"role": "user", "content": "x"}]}'


@pytest.mark.parametrize(
    ("is_external", "stream", "expected"),
    [(False, True, OWN), (True, True, OUTSIDE), (True, False, OUTSIDE.of_a_document(8))],
    ids=["own", "outside", "outside in one piece"],
)
async def test_servers_outside_have_a_patience_of_their_own(
    is_external: bool, stream: bool, expected: Patience
) -> None:
    changes: dict[str, Any] = {}
    if is_external:
        changes = {
            "capacity_class": CapacityClass.EXTERNAL,
            "base_url": "http://127.0.0.1:9/v1",
            "upstream_model": "their-small",
        }
    state = PoolState(pool=pool(**changes), replicas=() if is_external else (WARM,), waiting=0)
    places = Places(
        fleet=cast(FleetKeeper, SimpleNamespace(state=lambda _: state)),
        placement=Placement(Random(1)),
        known_prompts=cast(KnownPrompts, None),
        breakers=Breakers(lambda: NOW_S),
        waiting_room=cast(WaitingRoom, None),
        worker_secret="secret",
        own_patience=OWN,
        outside_patience=OUTSIDE,
        environment={},
        plans=Plans(),
        clock=lambda: NOW_S,
    )
    wanted_call = call(output_tokens_max=8, stream=stream)
    open_call = cast(
        OpenCall,
        SimpleNamespace(
            rid="req_1",
            call=wanted_call,
            is_short=True,
            beginning=NO_BEGINNING,
            resume=None,
            continuation=None,
            decision=SimpleNamespace(matched=SimpleNamespace(action=Action())),
        ),
    )
    candidate = cast(Any, SimpleNamespace(pool=state.pool.name, model="small"))
    wanted = parse_chat(BODY).payload
    found = await places.find(open_call, candidate, wanted, {}, True)
    assert found is not None
    assert found[1].target.patience == expected
    sent = json.loads(found[1].target.body)["model"]
    assert sent == ("their-small" if is_external else "small")
