"""Where a candidate can be tried: a warm replica, a waited-for one, or a server outside.

Owns the waiting room's side of a call and what is sent to a place; tries nothing and chooses no
candidate. Every wait is bounded by the call's deadline, and the room is left on every way out.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
from redis.exceptions import RedisError

from gateway.errors import deadline_passed, overloaded
from gateway.fleet import FleetKeeper
from gateway.open_call import OpenCall
from gateway.upstream.again import again_s, is_blocked, outside_id
from gateway.upstream.openai import Patience, Target, Whole
from gateway.wire.request import Wanted, outside_whole
from routing.cost import wait_s
from routing.replicas import choose_replica
from routing.types import Candidate, Clock, Pool, PoolState, Task, Tier
from workers.queue import WaitingRoom, WaitingRoomFull

RECHECK_S = 0.25
ROOM_AWAY_S = 1.0
"""How long Redis stays away nobody knows; it is looked for at every call."""
WANTED_S = 4.0
"""How long a refused call's demand stands: some rounds of the controller."""


class Place(msgspec.Struct, frozen=True):
    id: str
    target: Target
    pool: Pool


class Places:
    """Finds places in the fleet as it is now."""

    def __init__(
        self,
        *,
        fleet: FleetKeeper,
        waiting_room: WaitingRoom,
        worker_secret: str,
        own_patience: Patience,
        outside_patience: Patience,
        environment: Mapping[str, str],
        rng: Random,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._waiting_room = waiting_room
        self._worker_secret = worker_secret
        self._own_patience = own_patience
        self._wanted_until_s: dict[str, float] = {}
        self._outside_patience = outside_patience
        self._document_patience = outside_patience.of_a_document
        self._environment = environment
        self._rng = rng
        self._clock = clock

    async def find(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        candidates: Sequence[Candidate],
        wanted: Wanted,
        avoided: dict[str, float],
        patient: bool,
    ) -> tuple[Candidate, Place] | None:
        """Where this candidate can be tried now. If it cannot and the call is `patient`: where
        whichever of the candidates can first be tried. Else None."""
        place = self._place_now(open_call, candidate, wanted, avoided)
        if place is not None:
            return candidate, place
        state = self._fleet.state(candidate.pool)
        if not patient or state is None or state.pool.is_external:
            return None
        return await self._wait_for_place(open_call, candidate, candidates, wanted, avoided)

    def _place_now(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        wanted: Wanted,
        avoided: dict[str, float],
    ) -> Place | None:
        state = self._fleet.state(candidate.pool)
        if state is None:
            return None
        if state.pool.is_external:
            outside = outside_id(state.pool.name)
            blocked = avoided.get(outside, 0.0) > self._clock()
            return None if blocked else self._outside(outside, state, open_call, wanted)
        return self._warm_place(state, open_call, candidate, wanted, avoided)

    def _warm_place(
        self,
        state: PoolState,
        open_call: OpenCall,
        candidate: Candidate,
        wanted: Wanted,
        avoided: dict[str, float],
    ) -> Place | None:
        now_s = self._clock()
        excluded = [replica for replica, until_s in avoided.items() if until_s > now_s]
        replica = choose_replica(state, self._rng, excluded)
        if replica is None:
            return None
        body = wanted.own_body(_output_tokens_each(open_call, wanted)) | {
            "model": candidate.model,
            "sluice": {
                "request_id": open_call.rid,
                "cache_salt": open_call.call.organization,
                "immediate": open_call.call.tier is Tier.PRIORITY,
            },
        }
        named = {"x-request-id": open_call.rid, "x-sluice-worker-secret": self._worker_secret}
        base_url = f"{replica.address}/v1"
        target = _target(base_url, named, body, wanted, self._own_patience)
        return Place(replica.id, target, state.pool)

    async def _wait_for_place(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        candidates: Sequence[Candidate],
        wanted: Wanted,
        avoided: dict[str, float],
    ) -> tuple[Candidate, Place] | None:
        """Wait in the pool's room until it has a replica, or any other has; None if the pool
        cannot get one."""
        async with self._in_room(open_call, candidate.pool):
            while (left_s := open_call.call.deadline_s - self._clock()) > 0:
                await self._fleet.changed(timeout_s=min(left_s, RECHECK_S))
                for other in candidates:
                    if place := self._place_now(open_call, other, wanted, avoided):
                        return other, place
                if is_blocked(self._fleet.state(candidate.pool)):
                    return None
        message = "The deadline passed while the call waited for a worker."
        raise deadline_passed(message, self.again_s(open_call, avoided))

    def again_s(self, open_call: OpenCall, avoided: Mapping[str, float]) -> float:
        """When a call for which there was no place may come again."""
        states = [self._fleet.state(each.pool) for each in open_call.decision.eligible]
        return again_s(open_call.call, states, avoided, self._clock())

    async def want(self, pool: str) -> None:
        """Have a pool started that a call had no time to wait for. A Redis that is away is told
        nothing: the call is refused all the same."""
        if self._wanted_until_s.get(pool, 0.0) > self._clock():
            return
        self._wanted_until_s[pool] = self._clock() + WANTED_S / 2
        with suppress(RedisError):
            await self._waiting_room.want(pool, for_ms=round(WANTED_S * 1000))

    @asynccontextmanager
    async def _in_room(self, open_call: OpenCall, pool: str) -> AsyncIterator[None]:
        wait_ms = max(1, round((open_call.call.deadline_s - self._clock()) * 1000))
        try:
            async with self._waiting_room.waiting(pool, open_call.rid, wait_ms=wait_ms):
                open_call.waits_for = pool
                yield
        except WaitingRoomFull as full:
            state = self._fleet.state(pool)
            queue = [replace(state, waiting=full.waiting)] if state else []
            after_s = again_s(open_call.call, queue, {}, self._clock())
            raise overloaded("Too many calls are waiting already.", after_s) from full
        except RedisError as away:
            raise overloaded("The waiting room is out of reach.", ROOM_AWAY_S) from away
        finally:
            open_call.waits_for = None

    async def queue_note(self, open_call: OpenCall) -> str:
        """Where a held call stands, in one line for a keep-alive."""
        pool = open_call.waits_for
        state = self._fleet.state(pool) if pool else None
        if pool is None or state is None:
            return "waiting for a worker"
        with suppress(RedisError):
            position = await self._waiting_room.position(pool, open_call.rid)
            eta_s = wait_s(state, open_call.call, self._clock())
            return f"waiting for pool {pool}, position {position or 0}, about {eta_s:.0f} s"
        return f"waiting for pool {pool}"

    def _outside(
        self, place_id: str, state: PoolState, open_call: OpenCall, wanted: Wanted
    ) -> Place:
        pool = state.pool
        secret = self._environment.get(pool.api_key_env) if pool.api_key_env else None
        body = wanted.outside_body(_output_tokens_each(open_call, wanted))
        whole = _in_one_piece(open_call, pool.model, wanted)
        if whole is not None:
            body = outside_whole(body)
        body["model"] = pool.upstream_model or pool.variant
        authorized = {"authorization": f"Bearer {secret}"} if secret else {}
        base_url = (pool.base_url or "").rstrip("/")
        patience = self._outside_patience if whole is None else self._document_patience
        return Place(place_id, _target(base_url, authorized, body, wanted, patience, whole), pool)


def _in_one_piece(open_call: OpenCall, model: str, wanted: Wanted) -> Whole | None:
    """Where nobody streams and all the output there may be is paid for already, one document says
    the same as many events, for a fraction of the work on both sides."""
    most = open_call.call.output_tokens_max
    if open_call.call.stream or wanted.task is Task.EMBED:
        return None
    if open_call.output_tokens_granted < most:
        return None
    return Whole(open_call.call.prompt_tokens[model], most)


def _output_tokens_each(open_call: OpenCall, wanted: Wanted) -> int:
    return open_call.call.output_tokens_max // wanted.choices


def _target(
    base_url: str,
    headers: dict[str, str],
    body: dict[str, Any],
    wanted: Wanted,
    patience: Patience,
    whole: Whole | None = None,
) -> Target:
    return Target(
        url=base_url + wanted.path,
        headers={"content-type": "application/json"} | headers,
        body=msgspec.json.encode(body),
        choices=wanted.choices,
        embeds=wanted.task is Task.EMBED,
        patience=patience,
        whole=whole,
    )
