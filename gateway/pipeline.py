"""THE JOURNEY of one call: the file to read first.

Eight steps: authenticate, shape, price, decide, admit, dispatch, relay, settle. Steps 1 to 4 take
nothing, so a refusal there costs nobody anything. Step 5 takes rate, tokens, a slot and money in
one round trip, and whatever happens after it, leaving its block settles (step 8).
"""

import asyncio
from collections.abc import Mapping
from random import Random

import msgspec

from billing.limits.types import ScopeLimits
from gateway.accounts import Accounts
from gateway.auth import KeyDirectory, Leave, Principal
from gateway.budgets import UNBUDGETED, Bound
from gateway.catalog import CatalogKeeper
from gateway.end_users import EndUsers
from gateway.errors import (
    ApiError,
    auto_cannot_embed,
    bad_request,
    capacity_not_allowed,
    context_length_exceeded,
    model_not_found,
    model_not_priced,
    model_not_supported,
    overloaded,
    tier_not_allowed,
    upstream_lost,
)
from gateway.fleet import FleetKeeper
from gateway.leases import Leases
from gateway.model_limits import bound, without
from gateway.open_call import OpenCall, Quote
from gateway.room import prompts_by_model, room_for
from gateway.upstream.answer import Cut
from gateway.upstream.dispatch import Dispatcher, Opened
from gateway.wire.reply import Reply
from gateway.wire.request import GeneratingRequest, Wanted
from routing.policy import Policy, decide
from routing.types import (
    AUTO_MODEL,
    Call,
    Clock,
    Decision,
    Model,
    Refusal,
    RefusalKind,
    Task,
    Tier,
)

DEADLINE_HEADER = "x-sluice-deadline-ms"
DEADLINE_MS_MAX = 24 * 3600 * 1000
DEADLINE_DIGITS_MAX = len(str(DEADLINE_MS_MAX))
WHOLE_ANSWER_TRIES = 3
WORKER_LOST = "The worker was lost before the answer was complete."
BUDGET_EXHAUSTED = "budget_exhausted"
"""Stopped by the money, which a finish reason of `length` does not tell from a ceiling."""
AUTO_TIERS = (Tier.DEFAULT, Tier.FLEX, Tier.PRIORITY)
LARGE_BODY_BYTES = 16 * 1024
"""A larger conversation is tokenized beside the event loop, so that others need not wait for it."""


class Received(msgspec.Struct, frozen=True):
    """A generating request as it came in: its id, when, what it said and who it claims to be."""

    request_id: str
    arrived_s: float
    headers: Mapping[str, str]
    request: GeneratingRequest
    body_bytes: int = 0


class Pipeline:
    """Walks calls through the eight steps; everything it needs is handed in."""

    def __init__(
        self,
        *,
        keys: KeyDirectory,
        end_users: EndUsers,
        catalog: CatalogKeeper,
        fleet: FleetKeeper,
        accounts: Accounts,
        leases: Leases,
        dispatcher: Dispatcher,
        policy: Policy,
        rng: Random,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._end_users = end_users
        self._catalog = catalog
        self._fleet = fleet
        self._accounts = accounts
        self._leases = leases
        self._dispatcher = dispatcher
        self._policy = policy
        self._rng = rng
        self._clock = clock

    async def journey(self, principal: Principal, received: Received, reply: Reply) -> None:
        """Take one authenticated call from its shape to its last frame.

        Raises ApiError for whatever goes wrong before an answer has begun.
        """
        if received.body_bytes > LARGE_BODY_BYTES:
            call = await asyncio.to_thread(self.shape, received, principal)
        else:
            call = self.shape(received, principal)
        call, quote = self.price(call)
        while True:
            try:
                await self._serve(principal, received, call, quote, reply)
                return
            except ApiError as error:
                others = without(call, quote, error.limited_model)
                if others is None:
                    raise
                call, quote = others

    async def _serve(
        self, principal: Principal, received: Received, call: Call, quote: Quote, reply: Reply
    ) -> None:
        """Steps 4 to 8. Raises ApiError, with `limited_model` before anything was taken."""
        decision = await self._decide(call, received.request.wanted)
        if len(call.models) > 1:
            call, quote, decision = bound(call, quote, decision, principal.narrow.models)
        scopes = await self._scopes(principal, decision.chosen.model, received.request)
        budgets = await self._budgets(principal, received.request)
        admission = self._accounts.admit(principal, call, quote, decision, scopes, budgets)
        async with admission as open_call:
            async with reply.kept_waiting(open_call):
                await self._answer(open_call, received.request.wanted, reply)
            self._accounts.close(open_call)
            await reply.finish(open_call)

    # 1 -----------------------------------------------------------------------------------------

    async def authenticate(self, authorization: str | None) -> Principal:
        """Raises ApiError 401."""
        return await self._keys.authenticate(authorization)

    # 2 -----------------------------------------------------------------------------------------

    def shape(self, received: Received, principal: Principal) -> Call:
        """What is wanted, free of HTTP; raises ApiError 400 or 404. Pure but for the catalog."""
        request, wanted = received.request, received.request.wanted
        tier = _tier(request.service_tier, principal.leave)
        models = self._models_of(request.model, wanted.task, principal.leave)
        prompts = prompts_by_model(
            models, self._catalog.catalog.counters, wanted, received.body_bytes
        )
        room = room_for(request, [m for m in models if m.name in prompts], prompts)
        return Call(
            request_id=received.request_id,
            organization=principal.organization,
            project=principal.project,
            key=principal.key,
            model_requested=request.model,
            models=tuple([model.name for model in room.models]),
            tier=tier,
            stream=request.streaming is not None,
            prompt_tokens={name: sum(counts) for name, counts in prompts.items()},
            output_tokens_max=room.output_tokens_each * wanted.choices,
            arrived_s=received.arrived_s,
            deadline_s=received.arrived_s + self._time_given_s(received.headers, tier),
            task=wanted.task,
            longest_prompt_tokens={name: max(counts) for name, counts in prompts.items()},
            capacity_classes=principal.leave.capacity_classes,
        )

    def _models_of(self, requested: str, task: Task, leave: Leave) -> list[Model]:
        """A model that the key may not use looks like one that is not there."""
        models = self._catalog.catalog.models
        if requested == AUTO_MODEL and task is Task.EMBED:
            raise auto_cannot_embed()
        if requested == AUTO_MODEL:
            found = [m for m in models.values() if m.task is task and leave.may_use(m.name)]
        else:
            known = models.get(requested)
            found = [known] if known is not None and leave.may_use(requested) else []
        if not found:
            raise model_not_found(requested)
        if found[0].task is not task:
            raise model_not_supported(requested, task)
        return found

    def _time_given_s(self, headers: Mapping[str, str], tier: Tier) -> float:
        given = headers.get(DEADLINE_HEADER)
        if given is None:
            return self._policy.tiers[tier].deadline_s
        is_number = given.isascii() and given.isdigit() and len(given) <= DEADLINE_DIGITS_MAX
        if not is_number or not 0 < int(given) <= DEADLINE_MS_MAX:
            raise bad_request(f"'{DEADLINE_HEADER}' must be milliseconds, 1 to {DEADLINE_MS_MAX}.")
        return int(given) / 1000

    # 3 -----------------------------------------------------------------------------------------

    def price(self, call: Call) -> tuple[Call, Quote]:
        """The prices the call may end at; what has none is refused here, never free.

        `auto` passes over a model without a price as long as another one has.
        """
        tariff = self._catalog.prices.tariff(round(call.arrived_s * 1e6), call.organization)
        found = tariff.prices if tariff else {}
        tier = call.tier
        priced = {m: found[m, tier, False] for m in call.models if (m, tier, False) in found}
        if tariff is None or not priced:
            raise model_not_priced(call.model_requested, call.tier)
        if len(priced) < len(call.models):
            call = call._replace(models=tuple(priced))
        return call, Quote(tariff.version_id, priced)

    # 4 -----------------------------------------------------------------------------------------

    async def _decide(self, call: Call, wanted: Wanted) -> Decision:
        """The same; and a pool that would be ready too late is started for who comes back."""
        decided = decide(call, self._fleet.snapshot(call.models), self._policy, self._rng)
        if isinstance(decided, Refusal):
            await self._dispatcher.want(decided)
            raise _refused(decided, wanted)
        return decided

    def decide(self, call: Call, wanted: Wanted) -> Decision:
        """Raises the ApiError of a Refusal; nothing has been taken yet."""
        decided = decide(call, self._fleet.snapshot(call.models), self._policy, self._rng)
        if isinstance(decided, Refusal):
            raise _refused(decided, wanted)
        return decided

    # 5 -----------------------------------------------------------------------------------------

    async def _scopes(
        self, principal: Principal, model: str, request: GeneratingRequest
    ) -> tuple[ScopeLimits, ...]:
        """Whose limits bind the call; raises ApiError 400 where its end user has to be named."""
        return await self._end_users.scopes_of(
            principal, model, request.end_user, request.end_user_param
        )

    async def _budgets(self, principal: Principal, request: GeneratingRequest) -> tuple[Bound, ...]:
        """Which budgets bind the call; raises ApiError 400 as above."""
        if principal.budgets is UNBUDGETED:
            return ()
        return await self._end_users.budgets_of(principal, request.end_user, request.end_user_param)

    # 6 and 7 (5 and 8 are the way into and out of `Accounts.admit`) -----------------------------

    async def _answer(self, open_call: OpenCall, wanted: Wanted, reply: Reply) -> None:
        """Dispatch and relay; what failed before a token of it reached its caller is free."""
        try:
            await self._try_until_answered(open_call, wanted, reply)
        except ApiError:
            if not (reply.is_committed and open_call.usage.output):
                open_call.forgive()
            raise

    async def _try_until_answered(self, open_call: OpenCall, wanted: Wanted, reply: Reply) -> None:
        """A lost worker is tried again only if nothing has left yet. What then refuses a call that
        another has begun to answer does not hide how that one failed."""
        lost: Cut | None = None
        for tries_left in reversed(range(WHOLE_ANSWER_TRIES)):
            try:
                async with self._dispatcher.dispatch(open_call, wanted) as opened:
                    await reply.begin(open_call, opened.candidate)
                    await self._relay(open_call, opened, reply)
                    return
            except Cut as cut:
                lost = cut
                if not tries_left or not reply.start_over():
                    raise upstream_lost(WORKER_LOST) from cut
            except ApiError as refused:
                if lost is None or refused.status >= 500:
                    raise
                raise upstream_lost(WORKER_LOST) from lost

    async def _relay(self, open_call: OpenCall, opened: Opened, reply: Reply) -> None:
        """Count and forward every frame that the money held covers; the first other one ends it.

        A frame that is not covered is neither charged nor sent: nothing is ever overspent.
        """
        leases, meter, answer = self._leases, opened.meter, opened.answer
        for frame in opened.opening:
            await reply.forward(frame)
        frames = opened.behind or await answer.more()
        while frames:
            for place, frame in enumerate(frames, 1):
                output = meter.output_with(frame)
                has_plenty = leases.has_plenty(open_call, output)
                if not has_plenty and not await leases.covers(open_call, output):
                    await self._stop(open_call, reply, output > open_call.call.output_tokens_max)
                    return
                meter.observe(frame, self._clock())
                await reply.forward(frame, more=place < len(frames) or answer.is_over)
            frames = await answer.more()

    async def _stop(self, open_call: OpenCall, reply: Reply, is_beyond_its_most: bool) -> None:
        open_call.finish_reason = "length"
        open_call.error_code = None if is_beyond_its_most else BUDGET_EXHAUSTED
        await reply.stop_early("max_tokens" if is_beyond_its_most else BUDGET_EXHAUSTED)


def _tier(asked: str, leave: Leave) -> Tier:
    """The tier asked for; `auto` is the first of the usual order that the key may use."""
    wanted = AUTO_TIERS if asked == "auto" else (Tier(asked),)
    allowed = [tier for tier in wanted if leave.tiers is None or tier in leave.tiers]
    if not allowed:
        raise tier_not_allowed(asked)
    return allowed[0]


def _refused(refusal: Refusal, wanted: Wanted) -> ApiError:
    if refusal.kind is RefusalKind.CONTEXT_LENGTH:
        return context_length_exceeded(refusal.message, wanted.param)
    if refusal.kind is RefusalKind.FORBIDDEN:
        return capacity_not_allowed(refusal.message)
    return overloaded(refusal.message, refusal.retry_after_s or 1.0)
