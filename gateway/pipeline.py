"""THE JOURNEY of one call: the file to read first.

Eight steps: authenticate, shape, price, decide, admit, dispatch, relay, settle. Steps 1 to 4 take
nothing, so a refusal there costs nobody anything. Step 5 takes rate, tokens, a slot and money in
one round trip, and whatever happens after it, leaving its block settles (step 8).
"""

from collections.abc import Mapping, Sequence

from billing.types import CallStatus
from gateway.call.admission import Accounts, Admission
from gateway.call.context import cut, held_tokens, room_for, room_with_fallbacks
from gateway.call.estimates import counted, lengths_of, units_of
from gateway.call.frame import Frame
from gateway.call.leases import Leases
from gateway.call.open_call import OpenCall, Quote
from gateway.call.priced_call import PricedCall, Received, Shaped, TurnedDown
from gateway.call.pricing import priced
from gateway.call.prompt_tokens import LARGE_BYTES, PromptCounter
from gateway.call.request import GeneratingRequest, Payload
from gateway.catalog.catalog import CatalogKeeper
from gateway.catalog.fleet import FleetKeeper
from gateway.decisions.narrowing import models_left_out
from gateway.decisions.recorder import DecisionMade, DecisionRecorder
from gateway.decisions.seeds import Seeds
from gateway.errors import (
    NOT_ALLOWED,
    QUOTA_CODE,
    ApiError,
    auto_cannot_embed,
    bad_request,
    context_length_exceeded,
    model_not_found,
    model_not_supported,
    no_model_does,
    overloaded,
    provider_misconfigured,
    tier_not_allowed,
    upstream_lost,
)
from gateway.limits.budgets import UNBUDGETED, Bound
from gateway.limits.end_users import EndUsers
from gateway.moves.arrived import GATHERED_AT, Arrived
from gateway.moves.move import kept
from gateway.moves.said import Said
from gateway.policies.matching import Matching, PolicyMatch
from gateway.quality.active import ActiveQuality
from gateway.replicas.known_prompts import KnownPrompts
from gateway.replicas.placement import beginning_of, hint_of
from gateway.speeds.arrivals import Arrivals
from gateway.speeds.learner import Learner
from gateway.tenants.auth import KeyDirectory, Principal
from gateway.upstream.answer import CONTEXT_LENGTH, Cut
from gateway.upstream.dispatch import Dispatcher, Dispatching
from gateway.upstream.http1.exchange import Interrupted
from gateway.upstream.live import LiveAnswer
from gateway.wire.reply import Reply
from routing.decide import decide
from routing.filters import is_named
from routing.plans import Plans
from routing.policy.action import NO_BOUND, Matched, PriceBound
from routing.policy.rules import RoutingPolicy
from routing.types import (
    AUTO_MODEL,
    Call,
    CapacityClass,
    Clock,
    Decision,
    Leave,
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
NOT_READ_YET = "The gateway has just started and does not know its models and prices yet."
READ_WITHIN_S = 1.0
BUDGET_EXHAUSTED = "budget_exhausted"
"""Stopped by the money, which a finish reason of `length` does not tell from a ceiling."""
AUTO_TIERS = (Tier.DEFAULT, Tier.FLEX, Tier.PRIORITY)


class Pipeline:
    """Walks calls through the eight steps; everything it needs is handed in."""

    def __init__(
        self,
        *,
        keys: KeyDirectory,
        end_users: EndUsers,
        catalog: CatalogKeeper,
        counting: PromptCounter,
        fleet: FleetKeeper,
        accounts: Accounts,
        leases: Leases,
        dispatcher: Dispatcher,
        arrivals: Arrivals,
        known_prompts: KnownPrompts,
        learner: Learner,
        matching: Matching,
        deadlines_s: Mapping[Tier, float],
        plans: Plans,
        quality: ActiveQuality,
        recorder: DecisionRecorder,
        seeds: Seeds,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._end_users = end_users
        self._catalog = catalog
        self._counting = counting
        self._fleet = fleet
        self._accounts = accounts
        self._leases = leases
        self._dispatcher = dispatcher
        self._arrivals = arrivals
        self._known_prompts = known_prompts
        self._learner = learner
        self._matching = matching
        self._deadlines_s = deadlines_s
        self._plans = plans
        self._quality = quality
        self._recorder = recorder
        self._seeds = seeds
        self._clock = clock

    async def journey(self, principal: Principal, received: Received, reply: Reply) -> None:
        """Take one authenticated call from its shape to its last frame.

        Raises ApiError for whatever goes wrong before an answer has begun.
        """
        priced: PricedCall | None = await self._priced(principal, received)
        while priced is not None:
            priced = await self._serve(priced, reply)

    async def _priced(self, principal: Principal, received: Received) -> PricedCall:
        """Steps 2 and 3."""
        facts = received, principal, await self.remaining_usd(principal)
        if received.body_bytes > LARGE_BYTES:
            shaped, match = await self._counting.large(principal, self.matched, *facts)
        else:
            shaped, match = self.matched(*facts)
        call, quote = self.price(shaped.call, match.matched, received.request.price_max)
        return PricedCall(principal, received, shaped.beginning, match, call, quote)

    async def _serve(self, priced: PricedCall, reply: Reply) -> PricedCall | None:
        """Steps 4 to 8. The call on other models where limits or money refuse it and others may be
        asked: nothing was taken for it then. Raises ApiError."""
        try:
            made, first_decision = await self._decide(priced)
            call, quote, decision = await self._counted(priced, first_decision)
        except ApiError as error:
            if priced.uncovered is None:
                raise
            self._recorder.add_turned_away(*priced.uncovered)
            raise priced.uncovered.error from error
        made = made._replace(left_out=models_left_out(first_decision, decision))
        admission = await self._admission(priced, call, quote, decision)
        try:
            async with admission as open_call:
                self._arrivals.add(decision.chosen.model)
                left_out = models_left_out(first_decision, open_call.decision)
                self._recorder.add(made._replace(left_out=left_out))
                open_call.beginning = priced.beginning
                async with reply.keeping_alive(open_call):
                    await self._answer(open_call, priced.received.request.payload, reply)
                self._accounts.close(open_call)
                await reply.finish(open_call)
        except ApiError as error:
            if admission.is_admitted:
                if admission.open_call.status is CallStatus.REFUSED:
                    self._recorder.add_unserved(made, error)
                raise
            refused = TurnedDown(made, error)
            other = await self._instead(priced, refused, decision.chosen.model)
            if other is not None:
                return other
            first = priced.uncovered or refused
            self._recorder.add_turned_away(*first)
            if first is refused:
                raise
            raise first.error from error
        return None

    async def _instead(
        self, priced: PricedCall, refused: TurnedDown, chosen: str
    ) -> PricedCall | None:
        """The call on the models that are asked next; None where none are. One that names its model
        is decided again on the cheaper ones of its rule where its money does not cover it."""
        if refused.error.code != QUOTA_CODE:
            return priced.without(refused.error.limited_model)
        if not priced.cheaper_models(chosen):
            return None
        priced = priced._replace(uncovered=priced.uncovered or refused)
        if priced.received.body_bytes > LARGE_BYTES:
            organization = priced.principal.organization
            return await self._counting.beside(organization, self._on_cheaper, priced, chosen)
        return self._on_cheaper(priced, chosen)

    def _on_cheaper(self, priced: PricedCall, chosen: str) -> PricedCall | None:
        request, names = priced.received.request, priced.match.matched.action.cheaper_models
        try:
            call = self.shape(priced.received, priced.principal, (chosen, *names)).call
            prices = self.price(call, priced.match.matched, request.price_max)
        except ApiError:
            return None
        return priced.on_cheaper(*prices, chosen)

    # 1 -----------------------------------------------------------------------------------------

    async def authenticate(self, authorization: str | None) -> Principal:
        """Raises ApiError 401."""
        return await self._keys.authenticate(authorization)

    # 2 -----------------------------------------------------------------------------------------

    def deadline_s(self, received: Received, leave: Leave) -> float:
        """By when an answer has to begin; raises ApiError 400."""
        tier = _tier(received.request.service_tier, leave)
        return received.arrived_s + self._patience_s(received.headers, tier)

    def matched(
        self,
        received: Received,
        principal: Principal,
        remaining_usd: float,
        policy: RoutingPolicy | None = None,
    ) -> tuple[Shaped, PolicyMatch]:
        """The call with the models that its rule lets it fall back on, and that rule. `policy`: the
        one that is active, unless another one is tried. Raises ApiError 400 or 404."""
        request = received.request
        try:
            shaped = self.shape(received, principal)
        except ApiError as refused:
            if refused.code != CONTEXT_LENGTH or request.model == AUTO_MODEL:
                raise
            return self._on_larger(received, principal, remaining_usd, policy, refused)
        match = self.match(shaped.call, request, remaining_usd, policy)
        models = match.matched.action.fallback_models
        if models and request.model != AUTO_MODEL:
            shaped = self.shape(received, principal, models)
        return shaped, match

    def _on_larger(
        self,
        received: Received,
        principal: Principal,
        remaining_usd: float,
        policy: RoutingPolicy | None,
        refused: ApiError,
    ) -> tuple[Shaped, PolicyMatch]:
        """A call that is too long for its model, on those that its rule names for that. Raises
        `refused` where there is none."""
        larger = self._matching.larger_models(policy)
        try:
            if larger:
                call = self.shape(received, principal, larger).call
                match = self.match(call, received.request, remaining_usd, policy)
                if models := match.matched.action.larger_models:
                    return self.shape(received, principal, models), match
        except ApiError as other:
            raise refused from other
        raise refused

    def shape(
        self, received: Received, principal: Principal, fallbacks: Sequence[str] = ()
    ) -> Shaped:
        """The call, free of HTTP, which may also end on `fallbacks`; raises ApiError 400 or 404.
        Reads memory only."""
        call, request = self._call_of(received, principal, fallbacks), received.request
        hint = hint_of(received.headers, request.prompt_cache_key)
        beginning = beginning_of(request.payload, hint, principal.organization)
        return Shaped(self._known_prompts.with_prefixes(call, beginning), beginning)

    def _call_of(self, received: Received, principal: Principal, fallbacks: Sequence[str]) -> Call:
        request, payload = received.request, received.request.payload
        tier = _tier(request.service_tier, principal.leave)
        models = self._models_of(request.model, payload.task, principal.leave)
        if fallbacks:
            models += self._fallbacks_of(models, fallbacks, principal.leave)
        lengths = lengths_of(models, self._catalog.catalog.counters, request, received.body_bytes)
        prompts = lengths.of
        able = [model for model in models if model.name in prompts]
        left = cut(request, able, prompts)
        has_named = fallbacks and able[0].name == request.model
        room = (room_with_fallbacks if has_named else room_for)(request, able, left)
        call = Call(
            request_id=received.request_id,
            organization=principal.organization,
            project=principal.project,
            key=principal.key,
            model_requested=request.model,
            models=tuple([model.name for model in room.models]),
            tier=tier,
            stream=request.streaming is not None,
            prompt_tokens={m.name: held_tokens(m, prompts[m.name], left[m.name]) for m in able},
            output_tokens_max=room.output_tokens_each * payload.choices,
            arrived_s=received.arrived_s,
            deadline_s=received.arrived_s + self._patience_s(received.headers, tier),
            task=payload.task,
            longest_prompt_tokens={name: max(counts) for name, counts in left.items()},
            leave=principal.leave,
            extra_fields=frozenset(payload.extra or ()),
            estimated=lengths.estimated,
            quality_deviations=self._quality_deviations(room.models, payload),
            tenant_tier=principal.tier,
            unit=request.sold_by.unit if request.sold_by else "",
            units=units_of(request, prompts),
        )
        by_bytes = [model.name for model in room.models if model.path is None]
        return self._learner.expected(call, payload.choices, by_bytes)

    def _quality_deviations(
        self, models: Sequence[Model], payload: Payload
    ) -> dict[str, float] | None:
        """Where there is something to choose, and something was learned."""
        learned = self._quality.current
        if learned is None:
            return None
        names = learned.names([model.name for model in models])
        if not names or (len(models) < 2 and names == [models[0].name]):
            return None
        return learned.deviations(payload.question(), names)

    def _models_of(self, requested: str, task: Task, leave: Leave) -> list[Model]:
        """A model that the key may not use looks like one that is not there."""
        models = self._catalog.catalog.models
        if requested == AUTO_MODEL and task is Task.EMBED:
            raise auto_cannot_embed()
        if requested == AUTO_MODEL:
            models_left = [m for m in models.values() if m.task is task and leave.may_use(m.name)]
        else:
            known = models.get(requested)
            models_left = [known] if known is not None and leave.may_use(requested) else []
        if not models_left and self._catalog.catalog.revision < 0:
            raise overloaded(NOT_READ_YET, READ_WITHIN_S)
        if not models_left and requested == AUTO_MODEL and task.is_outside:
            raise no_model_does(task.verb)
        if not models_left:
            raise model_not_found(requested)
        if models_left[0].task is not task:
            raise model_not_supported(requested, task.verb)
        return models_left

    def _fallbacks_of(
        self, models: Sequence[Model], names: Sequence[str], leave: Leave
    ) -> list[Model]:
        """Those that are there, do the same task, and may be used by the key."""
        named, known = models[0], self._catalog.catalog.models
        others = [known[name] for name in names if name in known and leave.may_use(name)]
        return [each for each in others if each.task is named.task and each is not named]

    def _patience_s(self, headers: Mapping[str, str], tier: Tier) -> float:
        header = headers.get(DEADLINE_HEADER)
        if header is None:
            return self._deadlines_s[tier]
        is_number = header.isascii() and header.isdigit() and len(header) <= DEADLINE_DIGITS_MAX
        if not is_number or not 0 < int(header) <= DEADLINE_MS_MAX:
            raise bad_request(f"'{DEADLINE_HEADER}' must be milliseconds, 1 to {DEADLINE_MS_MAX}.")
        return int(header) / 1000

    # 3 -----------------------------------------------------------------------------------------

    async def remaining_usd(
        self, principal: Principal, policy: RoutingPolicy | None = None
    ) -> float:
        """What is left of the caller's budgets, where the policy asks for it."""
        return await self._matching.remaining_usd(principal, policy)

    def match(
        self,
        call: Call,
        request: GeneratingRequest,
        remaining_usd: float,
        policy: RoutingPolicy | None = None,
    ) -> PolicyMatch:
        """The rule of the call. It keeps the rule, whatever policy becomes active meanwhile."""
        return self._matching.match(call, request, remaining_usd, policy)

    def price(
        self, call: Call, matched: Matched, most: PriceBound = NO_BOUND
    ) -> tuple[Call, Quote]:
        """The prices of every model that the rule may end on; what has none is refused here, never
        free. `auto` passes over a model without a price, or above `most`, as long as another one
        has.
        """
        if not self._catalog.prices.versions:
            raise overloaded(NOT_READ_YET, READ_WITHIN_S)
        tariff = self._catalog.prices.tariff(round(call.arrived_s * 1e6), call.organization)
        return priced(call, self._models_left(call, matched), tariff, most)

    def _models_left(self, call: Call, matched: Matched) -> Sequence[str]:
        """Those of which the rule takes a pool. If it takes none, the decision says why."""
        if len(call.models) == 1:
            return call.models
        pools = [state.pool for state in self._fleet.snapshot(call.models).pools]
        taken = {pool.model for pool in pools if is_named(pool, matched.action) is None}
        return [model for model in call.models if model in taken] or call.models

    # 4 -----------------------------------------------------------------------------------------

    async def _decide(self, priced: PricedCall) -> tuple[DecisionMade, Decision]:
        """A refusal is recorded, and a pool that would be ready too late is started for who comes
        back."""
        made = self._made(priced.call, priced.match, self._seeds.take(), self._plans)
        if isinstance(made.decided, Refusal) and priced.uncovered:
            raise priced.uncovered.error
        if isinstance(made.decided, Refusal):
            refused = _refused(made.decided, priced.received.request.payload)
            self._recorder.add_refused(made, refused)
            await self._dispatcher.want(made.decided)
            raise refused
        return made, made.decided

    def decide(self, call: Call, match: PolicyMatch, payload: Payload) -> Decision:
        """As the call would be decided now, also from a thread. Raises the ApiError of a
        Refusal."""
        decided = self.would_decide(call, match)
        if isinstance(decided, Refusal):
            raise _refused(decided, payload)
        return decided

    def would_decide(
        self, call: Call, match: PolicyMatch, seed: int | None = None
    ) -> Decision | Refusal:
        """As the call would be decided now, also from a thread: if it comes next, with this very
        seed, unless another one is given."""
        return self._made(call, match, self._seeds.next if seed is None else seed, Plans()).decided

    def _made(self, call: Call, match: PolicyMatch, seed: int, plans: Plans) -> DecisionMade:
        snapshot = self._fleet.snapshot(call.models)
        decided = decide(call, snapshot, match.matched, seed, plans)
        return DecisionMade(call, match.attributes, snapshot, decided, match.wish)

    async def _counted(
        self, priced: PricedCall, decision: Decision
    ) -> tuple[Call, Quote, Decision]:
        """The decision, with only those models for which money can be taken. Raises ApiError 400
        where none of them has room for the prompt, once it is counted."""
        received = priced.received
        facts = (*priced.to_hold(), decision, received.request, self._catalog.catalog)
        if priced.call.estimated and received.body_bytes > LARGE_BYTES:
            return await self._counting.beside(priced.principal.organization, counted, *facts)
        return counted(*facts)

    # 5 -----------------------------------------------------------------------------------------

    async def _admission(
        self, priced: PricedCall, call: Call, quote: Quote, decision: Decision
    ) -> Admission:
        """The block that takes what its limits and budgets let it have. Raises ApiError 400 where
        the end user has to be named."""
        principal, request, end_users = priced.principal, priced.received.request, self._end_users
        end_user = request.end_user, request.end_user_param
        scopes = await end_users.scopes_of(principal, decision.chosen.model, *end_user)
        budgets: tuple[Bound, ...] = ()
        if principal.budgets is not UNBUDGETED:
            budgets = await end_users.budgets_of(principal, *end_user)
        return self._accounts.admit(
            *(principal, call, quote, decision, scopes, budgets), priced.received.idempotency
        )

    # 6 and 7 (5 and 8 are the way into and out of `Accounts.admit`) -----------------------------

    async def _answer(self, open_call: OpenCall, payload: Payload, reply: Reply) -> None:
        """Dispatch and relay; what failed before a token of it reached its caller is free."""
        try:
            await self._try_until_answered(open_call, payload, reply)
        except ApiError:
            if not (reply.is_committed and open_call.has_spoken):
                open_call.forgive()
            raise

    async def _try_until_answered(
        self, open_call: OpenCall, payload: Payload, reply: Reply
    ) -> None:
        """A lost worker is tried again only if nothing has left yet. What then refuses a call that
        another has begun to answer does not hide how that one failed."""
        lost: Cut | None = None
        for tries_left in reversed(range(WHOLE_ANSWER_TRIES)):
            try:
                dispatching = self._dispatcher.dispatch(open_call, payload)
                async with dispatching as opened:
                    await reply.begin(open_call, opened.candidate)
                    await self._relay_all(open_call, dispatching, opened, reply)
                    return
            except Cut as cut:
                lost = cut
                if not tries_left or not reply.start_over():
                    raise upstream_lost(WORKER_LOST) from cut
            except ApiError as refused:
                if lost is None or refused.status >= 500:
                    raise
                raise upstream_lost(WORKER_LOST) from lost

    async def _relay_all(
        self, open_call: OpenCall, dispatching: Dispatching, opened: LiveAnswer, reply: Reply
    ) -> None:
        """To the end of the answer, wherever it goes on. Raises Cut where it cannot."""
        arrived = kept(opened.candidate, opened.answer.choices)
        while True:
            try:
                await self._relay(open_call, opened, arrived, reply)
                return
            except Cut as lost:
                opened = await dispatching.move(arrived, lost)
            except Interrupted:
                opened = await dispatching.leave(arrived, opened)

    async def _relay(
        self, open_call: OpenCall, opened: LiveAnswer, arrived: Arrived | Said, reply: Reply
    ) -> None:
        """Count and forward every frame that the money held covers; the first other one ends it.

        A frame that is not covered is neither charged nor sent: nothing is ever overspent. The
        last one of a server outside is sent, whatever usage it reports: no more is charged for it
        than is held.
        """
        leases, meter, answer = self._leases, opened.meter, opened.answer
        came = arrived.new
        for frame in opened.opening:
            came.append(frame)
            await reply.forward(frame)
        frames = opened.behind or await answer.more()
        while frames:
            for place, frame in enumerate(frames, 1):
                output = meter.output_with(frame)
                covered = leases.has_plenty(open_call, output)
                covered = covered or await leases.covers(open_call, output)
                if not covered and not _may_end(opened, frame):
                    meter.overhear(frame)
                    beyond = output > open_call.call.output_tokens_max
                    await self._stop(open_call, reply, beyond)
                    return
                meter.observe(frame, self._clock())
                came.append(frame)
                await reply.forward(frame, more=place < len(frames) or answer.is_over)
            if len(came) >= GATHERED_AT:
                arrived.gather()
            frames = await answer.more()

    async def _stop(self, open_call: OpenCall, reply: Reply, is_beyond_its_most: bool) -> None:
        open_call.finish_reason = "length"
        open_call.error_code = None if is_beyond_its_most else BUDGET_EXHAUSTED
        await reply.stop_early("max_tokens" if is_beyond_its_most else BUDGET_EXHAUSTED)


def _may_end(opened: LiveAnswer, frame: Frame) -> bool:
    """A frame that is not covered changes nothing after the end of an answer, and a server outside
    may say with its last word that it used more than was asked for."""
    if opened.meter.is_complete:
        return True
    is_outside = opened.candidate.capacity_class is CapacityClass.EXTERNAL
    return is_outside and opened.meter.completes_with(frame)


def _tier(requested: str, leave: Leave) -> Tier:
    """The tier asked for; `auto` is the first of the usual order that the key may use."""
    tiers = AUTO_TIERS if requested == "auto" else (Tier(requested),)
    allowed = [tier for tier in tiers if leave.tiers is None or tier in leave.tiers]
    if not allowed:
        raise tier_not_allowed(requested)
    return allowed[0]


def _refused(refusal: Refusal, payload: Payload) -> ApiError:
    if refusal.kind is RefusalKind.CONTEXT_LENGTH:
        return context_length_exceeded(refusal.message, payload.param)
    if refusal.kind.is_forbidden:
        return NOT_ALLOWED[refusal.kind](refusal.message)
    if refusal.kind is RefusalKind.MISCONFIGURED:
        return provider_misconfigured()
    return overloaded(refusal.message, refusal.retry_after_s or 1.0)
