"""Where a candidate can be tried: a warm replica, a waited-for one, or a server outside.

Owns the waiting room's side of a call and what is sent to a place; tries nothing and chooses no
candidate. Every wait is bounded by the call's deadline, and the room is left on every way out.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec
from redis.exceptions import RedisError

from billing.types import Usage
from gateway.audio.speech import Speech
from gateway.call.open_call import OpenCall
from gateway.call.request import Payload, is_sent_as_form, outside_whole
from gateway.call.wait import WaitEnd
from gateway.catalog.external import LITELLM, TRITON
from gateway.catalog.fleet import FleetKeeper, outside_id
from gateway.catalog.tokenizers import ByteBound, TokenCounter
from gateway.errors import deadline_passed, overloaded
from gateway.health.breakers import Breakers, Scopes, key_scopes, outside_scopes, replica_scope
from gateway.moves.arrived import finished
from gateway.providers.key import ProviderKey
from gateway.providers.key_limits import OpenKey
from gateway.providers.keys import KeyedPool, ProviderKeys, place_of_key
from gateway.providers.link import ProvidersLink
from gateway.providers.price_list import DEFAULT, ListedRate, bought_tier, of_tier
from gateway.providers.triton import Awaited, Generate, Unmapped, generate_of, generate_url
from gateway.replicas.known_prompts import KnownPrompts
from gateway.replicas.placement import Chosen, OpenPlace, Placement
from gateway.scores.answers import reader_for
from gateway.scores.payload import ScoredPayload
from gateway.uploads.sent_form import SentForm
from gateway.upstream.answer import Rejection
from gateway.upstream.come_again import again_s, is_blocked
from gateway.upstream.hints import RefusedHints
from gateway.upstream.openai import Patience, Target, Whole
from routing.cost import wait_s
from routing.health.hedge import beside
from routing.health.patience import (
    connection_bound_s,
    first_token_bound_s,
    has_another,
    silence_bound_s,
)
from routing.plans import Plans
from routing.policy.action import Timeouts
from routing.types import (
    Call,
    Candidate,
    Clock,
    Continues,
    Pool,
    PoolState,
    ReplicaState,
    Task,
    Tier,
)
from routing.waiting import better_than_waiting
from workers.controller.queue import WaitingRoom, WaitingRoomFull

CHAT_PATH = "/chat/completions"
RECHECK_S = 0.25
ROOM_AWAY_S = 1.0
"""How long Redis stays away nobody knows; it is looked for at every call."""
WANT_S = 4.0
"""How long a refused call's demand stands: some rounds of the controller."""


class Place(msgspec.Struct, frozen=True):
    id: str
    target: Target
    pool: Pool
    scopes: Scopes
    """Of its breakers."""
    chosen: Chosen | None = None
    """Of a replica, why it was chosen; None of a server outside."""
    by_prefix: bool = False
    """It is asked to continue a text."""
    key: ProviderKey | None = None
    """Of its provider's account. None: the pool has its own, or none."""

    rates: tuple[ListedRate, ...] = ()
    """Of its provider's list, for the tier that is bought. None: its pool has the price."""

    @property
    def key_id(self) -> str | None:
        """What is left alone where the key alone is at fault."""
        return None if self.key is None else place_of_key(self.pool.name, self.key.name)

    @property
    def label(self) -> str:
        """As records have it."""
        return self.key_id or self.id


class Places:
    """Finds places in the fleet as it is now."""

    def __init__(
        self,
        *,
        fleet: FleetKeeper,
        placement: Placement,
        known_prompts: KnownPrompts,
        breakers: Breakers,
        waiting_room: WaitingRoom,
        worker_secret: str,
        own_patience: Patience,
        outside_patience: Patience,
        environment: Mapping[str, str],
        plans: Plans,
        keys: ProviderKeys,
        clock: Clock,
        adapters: ProvidersLink | None = None,
        listed: Callable[[str], tuple[ListedRate, ...]] = lambda pool: (),
        tokens_of: Callable[[str], TokenCounter] = lambda _: ByteBound(),
    ) -> None:
        self._fleet = fleet
        self._placement = placement
        self._known_prompts = known_prompts
        self._breakers = breakers
        self._waiting_room = waiting_room
        self._worker_secret = worker_secret
        self._own_patience = own_patience
        self._want_until_s: dict[str, float] = {}
        self._outside_patience = outside_patience
        self._environment = environment
        self._adapters = adapters
        self._listed = listed
        self._tokens_of = tokens_of
        self._plans = plans
        self._keys = keys
        self._clock = clock
        self._refused_hints = RefusedHints(clock)
        self._usual: dict[tuple[str, Tier], tuple[PoolState, Patience]] = {}
        """What is usual of a pool of ours, by its name, and of which state that was reckoned."""

    async def find(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        payload: Payload,
        avoided: dict[str, float],
        patient: bool,
    ) -> tuple[Candidate, Place] | None:
        """Where this candidate can be tried now. If it cannot and the call is `patient`: where it
        can be tried once it has started, or what is better than waiting for it. Else None."""
        place = self._place_now(open_call, candidate, payload, avoided)
        if place is not None:
            return candidate, place
        state = self._fleet.state(candidate.pool)
        if not patient or state is None or state.pool.is_external:
            return None
        return await self._wait_for_place(open_call, candidate, payload, avoided)

    def _place_now(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        payload: Payload,
        avoided: dict[str, float],
    ) -> Place | None:
        state = self._fleet.state(candidate.pool)
        if state is None:
            return None
        if state.pool.is_external:
            return self._place_outside(state, open_call, payload, avoided)
        return self._warm_place(state, open_call, candidate, payload, avoided)

    def _place_outside(
        self,
        state: PoolState,
        open_call: OpenCall,
        payload: Payload,
        avoided: dict[str, float],
    ) -> Place | None:
        """One that its breakers leave alone is avoided for so long."""
        place_id, now_s = outside_id(state.pool.name), self._clock()
        if state.blocked_reason or avoided.get(place_id, 0.0) > now_s:
            return None
        if open_call.continuation is not None and state.pool.continues is Continues.OFF:
            return None
        most_s = open_call.decision.matched.action.retries.retry_after_s_max
        tokens = _tokens(open_call, state.pool)
        keyed = self._keys.next(state.pool, tokens, avoided, most_s)
        if isinstance(keyed, float):
            avoided[place_id] = now_s + keyed
            return None
        return self._outside(place_id, keyed, open_call, payload)

    def _warm_place(
        self,
        state: PoolState,
        open_call: OpenCall,
        candidate: Candidate,
        payload: Payload,
        avoided: dict[str, float],
    ) -> Place | None:
        now_s = self._clock()
        excluded = [replica for replica, until_s in avoided.items() if until_s > now_s]
        choice = self._choice(state, open_call, excluded)
        if choice is None:
            return None
        own = {
            "request_id": open_call.rid,
            "cache_salt": open_call.call.organization,
            "immediate": open_call.call.tier is Tier.PRIORITY,
            "tier": open_call.call.tier,
        }
        if open_call.resume is not None:
            own["resume"] = open_call.resume
        body = payload.own_body(_output_tokens_each(open_call, payload))
        body |= {"model": candidate.model, "sluice": own}
        headers = {"x-request-id": open_call.rid, "x-sluice-worker-secret": self._worker_secret}
        base_url = f"{choice.address}/v1"
        secrets = (self._worker_secret,)
        patience = self._own(state, open_call).by(open_call.decision.matched.action.timeouts)
        target = _target(base_url, headers, body, payload, patience, secrets=secrets)
        if open_call.resume is not None:
            target = msgspec.structs.replace(target, finished=finished(open_call.resume))
        scopes = (replica_scope(choice.replica_id),)
        return Place(choice.replica_id, target, state.pool, scopes, choice)

    def _choice(
        self, state: PoolState, open_call: OpenCall, excluded: Sequence[str]
    ) -> Chosen | None:
        """A replica whose breaker is open is asked where the pool has no other one."""
        call, beginning = open_call.call, open_call.beginning
        alone = self._breakers.left_alone(each.id for each in state.replicas)
        choice = self._placement.choose(state, call, beginning, [*excluded, *alone])
        if choice is None and alone:
            choice = self._placement.choose(state, call, beginning, excluded)
        return choice

    def has_room(self, place: Place, open_call: OpenCall) -> bool:
        """Whether the limits of its key still let a call through."""
        tokens = _tokens(open_call, place.pool)
        return place.key is None or self._keys.limits.wait_s(place.key, tokens) <= 0

    def open(self, place: Place, open_call: OpenCall) -> OpenPlace | OpenKey | None:
        """Count an attempt at a replica or with a key, until what is returned is closed."""
        if place.key is not None:
            return self._keys.limits.open(place.key, _tokens(open_call, place.pool))
        return None if place.chosen is None else OpenPlace(self._placement, place.chosen)

    def with_prefixes(self, open_call: OpenCall) -> Call:
        """The call with what pools have of its prompt now."""
        return self._known_prompts.with_prefixes(open_call.call, open_call.beginning)

    def computed(self, place: Place, open_call: OpenCall) -> None:
        """Its first token is here. Of a replica its attempt tells that itself."""
        if place.pool.is_external:
            self._known_prompts.sent_outside(place.pool, open_call.beginning)

    async def _wait_for_place(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        payload: Payload,
        avoided: dict[str, float],
    ) -> tuple[Candidate, Place] | None:
        """Wait in the pool's room until it has a replica, or another pool can be tried that is now
        better than going on waiting; None if the pool cannot get one."""
        call, decision = open_call.call, open_call.decision
        async with self._in_room(open_call, candidate.pool):
            wait = open_call.wait_for(candidate.pool)
            while (left_s := call.deadline_s - self._clock()) > 0:
                await self._fleet.changed(timeout_s=min(left_s, RECHECK_S))
                snapshot, now = self._fleet.snapshot(call.models), self.with_prefixes(open_call)
                better = better_than_waiting(
                    *(now, snapshot, decision.matched, decision.seed, candidate.pool),
                    self._plans,
                )
                wait.redecisions += 1
                blocked = is_blocked(self._fleet.state(candidate.pool))
                elsewhere = WaitEnd.BLOCKED if blocked else WaitEnd.BETTER
                for each in (*better, candidate):
                    if place := self._place_now(open_call, each, payload, avoided):
                        wait.end = WaitEnd.PLACE if each is candidate else elsewhere
                        return each, place
                if blocked:
                    wait.end = elsewhere
                    return None
            wait.end = WaitEnd.DEADLINE
        message = "The deadline passed while the call waited for a worker."
        raise deadline_passed(message, self.again_s(open_call, avoided))

    def again_s(self, open_call: OpenCall, avoided: Mapping[str, float]) -> float:
        """When a call for which there was no place may come again."""
        states = [self._fleet.state(each.pool) for each in open_call.decision.eligible]
        in_flight = self._fleet.in_flight_of_pool
        return again_s(open_call.call, states, avoided, self._clock(), in_flight)

    async def want(self, pool: str) -> None:
        """Have a pool started that a call had no time to wait for. A Redis that is away is told
        nothing: the call is refused all the same."""
        if self._want_until_s.get(pool, 0.0) > self._clock():
            return
        self._want_until_s[pool] = self._clock() + WANT_S / 2
        with suppress(RedisError):
            await self._waiting_room.want(pool, for_ms=round(WANT_S * 1000))

    @asynccontextmanager
    async def _in_room(self, open_call: OpenCall, pool: str) -> AsyncIterator[None]:
        wait_ms = max(1, round((open_call.call.deadline_s - self._clock()) * 1000))
        try:
            waiting = self._waiting_room.waiting(
                pool, open_call.rid, wait_ms=wait_ms, tier=open_call.call.tier
            )
            async with waiting:
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
        self, place_id: str, keyed: KeyedPool, open_call: OpenCall, payload: Payload
    ) -> Place:
        pool, key = keyed
        whole = _in_one_piece(open_call, pool.model, payload)
        patience = self._patience(pool, open_call, self._outside_patience, whole)
        each = _output_tokens_each(open_call, payload)
        wanted = DEFAULT if pool.adapter else open_call.call.tier.value
        rates = of_tier(self._listed(pool.name), wanted)
        tier = bought_tier(rates)
        prompt_tokens = open_call.call.prompt_tokens[pool.model]
        target = self.outside_target(
            *(pool, payload, each, patience, whole, tier), prompt_tokens=prompt_tokens
        )
        scopes = outside_scopes(pool) if key is None else key_scopes(pool, key.name)
        if open_call.continuation is not None:
            body = open_call.continuation.body(pool, target.body)
            if body is not None:
                target = msgspec.structs.replace(target, body=body)
                return Place(place_id, target, pool, scopes, by_prefix=True, key=key, rates=rates)
        return Place(place_id, target, pool, scopes, key=key, rates=rates)

    def _patience(
        self, pool: Pool, open_call: OpenCall, usual: Patience, whole: Whole | None
    ) -> Patience:
        """With a server outside: as the call's policy says, else its pool, else as is `usual`."""
        of_pool = Timeouts(pool.connect_timeout_s, pool.first_token_timeout_s, pool.idle_timeout_s)
        patience = usual.by(of_pool).by(open_call.decision.matched.action.timeouts)
        if whole is not None:
            return patience.of_a_document(open_call.call.output_tokens_max, whole.work_s)
        return patience

    def _own(self, state: PoolState, open_call: OpenCall) -> Patience:
        """With a replica of ours. Where its pool has another one, a first attempt has no longer
        than is usual; its queue may be long, so of the first token nothing is usual."""
        default = self._own_patience
        if open_call.attempts or open_call.resume is not None:
            return default
        tier = open_call.call.tier
        known = self._usual.get((state.pool.name, tier))
        if known is not None and known[0] is state:
            return known[1]
        usual = default
        if has_another(state):
            connect_s = connection_bound_s(tier, state, default.connect_s)
            idle_s = silence_bound_s(tier, state, default.idle_s)
            usual = Patience(default.first_token_s, idle_s, connect_s)
        self._usual[state.pool.name, tier] = state, usual
        return usual

    def first_place(self, open_call: OpenCall, candidate: Candidate, place: Place) -> Place:
        """For the first attempt of a call. Where another place could take the call, a server
        outside has no longer than is usual for it, unless its pool or the policy says how long. A
        later attempt has the time of any, so that no call fails because all are slow."""
        pool, decision = place.pool, open_call.decision
        if not pool.is_external or open_call.attempts or len(decision.candidates) < 2:
            return place
        default, state, call = self._outside_patience, self._fleet.state(pool.name), open_call.call
        is_whole = place.target.whole is not None
        usual = Patience(
            first_token_bound_s(call, state, default.first_token_s, is_whole=is_whole),
            silence_bound_s(call.tier, state, default.idle_s),
            connection_bound_s(call.tier, state, default.connect_s),
        )
        if usual == default or decision.matched.action.retries.most < 1:
            return place
        others = [self._fleet.state(each.pool) for each in beside(decision.eligible, candidate)]
        there = [each for each in others if each is not None and _is_there(each)]
        if not there:
            return place
        if not any(_continues(each.pool) for each in there) or not _continues(pool):
            usual = msgspec.structs.replace(usual, idle_s=default.idle_s)
        patience = self._patience(pool, open_call, usual, place.target.whole)
        if patience == place.target.patience:
            return place
        target = msgspec.structs.replace(place.target, patience=patience)
        return msgspec.structs.replace(place, target=target)

    def outside_target(
        self,
        pool: Pool,
        payload: Payload,
        output_tokens_each: int,
        patience: Patience,
        whole: Whole | None = None,
        tier: str | None = None,
        *,
        prompt_tokens: int | None = None,
    ) -> Target:
        """Of an external pool that nothing is against. `tier`: to be asked of its provider. A
        prompt that was not counted yet is counted where its server may not do it."""
        body = payload.outside_body(output_tokens_each)
        if whole is not None:
            body = outside_whole(body)
        body["model"] = pool.upstream_model
        if tier is not None:
            body["service_tier"] = tier
        left_out = self._refused_hints.of(pool, body)
        for hint in left_out:
            del body[hint]
        base_url, headers, secrets = self.way_outside(pool)
        form = payload.sent(body) if is_sent_as_form(payload) else None
        if pool.adapter and payload.task in (Task.TRANSCRIBE, Task.SPEAK):
            return Target("", {}, b"", outside=True, rejection=_not_by_adapter(pool, payload))
        if pool.adapter == TRITON:
            tokens = self._tokens_of(pool.model)
            if prompt_tokens is None:
                prompt_tokens = sum(payload.prompt_tokens(tokens))
            is_chat = payload.path == CHAT_PATH
            awaited = Awaited(tokens, prompt_tokens, output_tokens_each, is_chat)
            return _triton_target(pool, headers, body, awaited, patience, whole, secrets)
        return _target(
            base_url,
            headers,
            body,
            payload,
            patience,
            whole,
            secrets=secrets,
            outside=True,
            left_out=left_out,
            form=form,
            sound=payload.usage(prompt_tokens or 0) if isinstance(payload, Speech) else None,
        )

    def way_outside(self, pool: Pool) -> tuple[str, dict[str, str], tuple[str, ...]]:
        """The URL up to `/v1`, the headers, and what of them may stand in no record."""
        link = self._adapters
        if pool.adapter == LITELLM and link is not None:
            return f"{link.base_url}/v1", link.headers(pool), (link.secret,)
        secret = self._environment.get(pool.api_key_env) if pool.api_key_env else None
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        return (pool.base_url or "").rstrip("/"), headers, (secret,) if secret else ()

    def with_key(self, pool: Pool, key: str | None = None) -> Pool:
        """The pool with this key of its account, or with any that can be used: for a call that is
        none of a tenant's."""
        return self._keys.any_of(pool) if key is None else self._keys.with_key(pool, key)

    def leave_out(self, hints: Iterable[str], place: Place) -> None:
        """From now on and for a time: that place was sent them, and took the call without."""
        self._refused_hints.add(place.pool, place.target.body, hints)


def _triton_target(
    pool: Pool,
    headers: dict[str, str],
    body: dict[str, Any],
    awaited: Awaited,
    patience: Patience,
    whole: Whole | None,
    secrets: tuple[str, ...],
) -> Target:
    """What the extension has nothing for is refused where the call is sent, as a server would."""
    stream, rejection = whole is None, None
    try:
        asked = generate_of(body, awaited.tokens, pool.extra_fields, stream=stream)
    except Unmapped as unmapped:
        asked, rejection = Generate({}, ()), unmapped.rejection
    return Target(
        url=generate_url(pool.base_url or "", pool.upstream_model or "", stream=stream),
        headers={"content-type": "application/json"} | headers,
        body=msgspec.json.encode(asked.document),
        secrets=secrets,
        outside=True,
        patience=patience,
        whole=whole,
        left_out=asked.left_out,
        awaited=awaited,
        rejection=rejection,
    )


def _not_by_adapter(pool: Pool, payload: Payload) -> Rejection:
    message = f"The adapter '{pool.adapter}' of this model has no '/v1{payload.path}'."
    return Rejection(400, message, "model_not_supported", "model")


def _is_there(state: PoolState) -> bool:
    """Whether it could take a call now, without a start."""
    if state.blocked_reason or (state.health and state.health.is_left_alone):
        return False
    return state.pool.is_external or any(each.state is ReplicaState.WARM for each in state.replicas)


def _continues(pool: Pool) -> bool:
    return pool.is_external and pool.continues is Continues.PREFIX


def _in_one_piece(open_call: OpenCall, model: str, payload: Payload) -> Whole | None:
    """Where nobody streams and the answer is short, one document says the same as many events, for
    a fraction of the work on both sides. What is no text comes so alone."""
    if isinstance(payload, Speech):
        return None
    if isinstance(payload, ScoredPayload):
        call = open_call.call
        held, by_unit = call.prompt_tokens[model], model in call.units
        return Whole(payload.unsaid_tokens(held, by_unit=by_unit), payload.work_s)
    if open_call.call.stream or payload.task is Task.EMBED or not open_call.is_short:
        return None
    return Whole(open_call.call.prompt_tokens[model])


def _tokens(open_call: OpenCall, pool: Pool) -> int:
    """What a provider counts a call by before it answers."""
    call = open_call.call
    return call.likely_prompt_tokens(pool.model) + call.output_tokens_max


def _output_tokens_each(open_call: OpenCall, payload: Payload) -> int:
    return open_call.call.output_tokens_max // payload.choices


def _target(
    base_url: str,
    headers: dict[str, str],
    body: dict[str, Any],
    payload: Payload,
    patience: Patience,
    whole: Whole | None = None,
    *,
    secrets: tuple[str, ...],
    outside: bool = False,
    left_out: tuple[str, ...] = (),
    form: SentForm | None = None,
    sound: Usage | None = None,
) -> Target:
    content_type = "application/json" if form is None else form.content_type
    return Target(
        url=base_url + payload.path,
        headers={"content-type": content_type} | headers,
        body=msgspec.json.encode(body),
        secrets=secrets,
        outside=outside,
        choices=payload.choices,
        embeds=payload.task is Task.EMBED,
        reads=reader_for(payload, whole.prompt_tokens if whole else 0),
        patience=patience,
        whole=whole,
        left_out=left_out,
        form=form,
        sound=sound,
    )
