"""Own workers and servers outside are given times of their own, which pools and policies bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.open_call import OpenCall
from gateway.catalog.external import ExternalRules
from gateway.catalog.fleet import FleetKeeper
from gateway.health.breakers import Breakers
from gateway.providers.key_limits import KeyLimits
from gateway.providers.keys import ProviderKeys
from gateway.replicas.known_prompts import KnownPrompts
from gateway.replicas.placement import Placement
from gateway.upstream.openai import Patience
from gateway.upstream.places import Place, Places
from gateway.wire.bodies.chat import parse_chat
from routing.health.patience import CONNECTION, SILENCE
from routing.plans import Plans
from routing.policy.action import TIMEOUTS, Action, Timeouts
from routing.replicas.blocks import NO_BEGINNING
from routing.speeds import Speeds
from routing.types import Pool, PoolState, Replica, ReplicaState, Tier
from tests.routing.fleets import NOW_S, call, external, pool
from workers.controller.queue import WaitingRoom

OWN = Patience(first_token_s=1.0, idle_s=2.0, connect_s=0.5)
OUTSIDE = Patience(first_token_s=3.0, idle_s=4.0)
WARM = Replica("r1", "http://127.0.0.1:9", ReplicaState.WARM, 0, 0, 0)
OTHER = replace(WARM, id="r2")
BODY = b'{"model": "small", "messages": [{"role": "user", "content": "x"}]}'


@pytest.mark.parametrize(
    ("is_external", "stream", "expected"),
    [(False, True, OWN), (True, True, OUTSIDE), (True, False, OUTSIDE.of_a_document(8))],
    ids=["own", "outside", "outside in one piece"],
)
async def test_servers_outside_have_a_patience_of_their_own(
    is_external: bool, stream: bool, expected: Patience
) -> None:
    place = await place_of(external() if is_external else pool(), Timeouts(), stream=stream)
    assert place.target.patience == expected
    sent = json.loads(place.target.body)["model"]
    assert sent == ("their-small" if is_external else "small")


BOUNDS = st.tuples(*[st.none() | st.floats(0.1, 90.0)] * 3)


@given(BOUNDS, BOUNDS)
async def test_times_are_those_of_the_policy_else_of_the_pool_else_of_the_gateway(
    of_pool: tuple[float | None, ...], of_policy: tuple[float | None, ...]
) -> None:
    names = ("connect_timeout_s", "first_token_timeout_s", "idle_timeout_s")
    there = external(**dict(zip(names, of_pool, strict=True)))
    patience = (await place_of(there, Timeouts(*of_policy))).target.patience
    of_gateway = (OUTSIDE.connect_s, OUTSIDE.first_token_s, OUTSIDE.idle_s)
    assert (patience.connect_s, patience.first_token_s, patience.idle_s) == tuple(
        next((each for each in ranked if each is not None), None)
        for ranked in zip(of_policy, of_pool, of_gateway, strict=True)
    )


def unkeyed() -> ProviderKeys:
    """No provider has an account."""

    def now_s() -> float:
        return NOW_S

    limits = KeyLimits(now_s, lambda: 1)
    return ProviderKeys(lambda _: (), ExternalRules(), {}, Breakers(now_s), limits, now_s)


QUICK = Speeds(0.01, 0.0, 0.01, 0.001, step_s_most=0.02)
SLOW_OWN = Patience(first_token_s=60.0, idle_s=60.0, connect_s=2.0)


@pytest.mark.parametrize("tier", Tier)
async def test_a_replica_of_ours_that_falls_silent_is_left_as_is_usual_where_another_is_warm(
    tier: Tier,
) -> None:
    async def patience(timeouts: Timeouts = TIMEOUTS, **of_scene: Any) -> Patience:
        scene = {"learned": QUICK, "replicas": (WARM, OTHER), "own": SLOW_OWN} | of_scene
        return (await place_of(pool(), timeouts, tier=tier, **scene)).target.patience

    usual = Patience(60.0, SILENCE[tier].floor_s, CONNECTION[tier].floor_s)
    assert await patience() == usual
    assert await patience(Timeouts(0.7, 30.0, 40.0)) == Patience(30.0, 40.0, 0.7)
    assert await patience(replicas=(WARM,)) == SLOW_OWN, "nobody else could go on"
    assert await patience(learned=None) == SLOW_OWN
    assert await patience(attempts=["one that failed"]) == SLOW_OWN
    assert await patience(own=OWN) == OWN, "never more than the default"


async def place_of(
    there: Pool,
    timeouts: Timeouts,
    *,
    stream: bool = True,
    tier: Tier = Tier.DEFAULT,
    replicas: tuple[Replica, ...] = (WARM,),
    learned: Speeds | None = None,
    attempts: Sequence[object] = (),
    own: Patience = OWN,
) -> Place:
    """Where a call goes whose policy says `timeouts`, if this is the only pool."""
    if there.is_external:
        replicas = ()
    state = PoolState(pool=there, replicas=replicas, waiting=0, learned=learned)
    places = Places(
        fleet=cast(FleetKeeper, SimpleNamespace(state=lambda _: state)),
        placement=Placement(Random(1)),
        known_prompts=cast(KnownPrompts, None),
        breakers=Breakers(lambda: NOW_S),
        waiting_room=cast(WaitingRoom, None),
        worker_secret="secret",
        own_patience=own,
        outside_patience=OUTSIDE,
        environment={},
        plans=Plans(),
        keys=unkeyed(),
        clock=lambda: NOW_S,
    )
    open_call = cast(
        OpenCall,
        SimpleNamespace(
            rid="req_1",
            call=call(output_tokens_max=8, stream=stream, tier=tier),
            attempts=attempts,
            is_short=True,
            beginning=NO_BEGINNING,
            resume=None,
            continuation=None,
            decision=SimpleNamespace(matched=SimpleNamespace(action=Action(timeouts=timeouts))),
        ),
    )
    candidate = cast(Any, SimpleNamespace(pool=there.name, model="small"))
    found = await places.find(open_call, candidate, parse_chat(BODY).payload, {}, True)
    assert found is not None
    return found[1]
