"""What would happen to a call now, with the very code that calls walk."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import msgspec
from fastapi import Depends, Request

from gateway.admin.route.schemas import ExplainBody
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.call.estimates import counted
from gateway.call.priced_call import Received
from gateway.decisions.explained import (
    ExplainedDecision,
    PricedCandidate,
    clauses_of,
    of_decided,
)
from gateway.decisions.narrowing import LeftOut, models_left_out
from gateway.errors import bad_request
from gateway.parts import Parts
from gateway.public.quote.service import most_nanousd
from gateway.server.routes import quoted_routes
from gateway.tenants.auth import Principal
from gateway.tenants.principal import principal_of
from routing.policy.rules import RoutingPolicy
from routing.types import Call, Decision


class ExplainedRoute(NamedTuple):
    url: str
    call: Call
    decision: ExplainedDecision
    candidates: Sequence[PricedCandidate]


@dataclass(frozen=True, slots=True)
class RoutingService:
    parts: Parts

    async def explain(
        self, body: ExplainBody, policy: RoutingPolicy | None = None
    ) -> ExplainedRoute:
        """Under the active policy, or under one that is tried. Raises ApiError: 404 for a key that
        is not there, and whatever the call would be refused with before it is decided."""
        principal = await attempt(lambda: self._principal(body.key))
        left_usd = await self.parts.pipeline.remaining_usd(principal, policy)
        return await attempt(lambda: self._explained(body, principal, left_usd, policy))

    def _principal(self, key: str) -> Principal:
        key_row = self.parts.tenants.key_by_id(key)
        if key_row is None:
            raise NotThere(key)
        return principal_of(key_row)

    def _explained(
        self,
        explain: ExplainBody,
        principal: Principal,
        left_usd: float,
        policy: RoutingPolicy | None,
    ) -> ExplainedRoute:
        parts, pipeline = self.parts, self.parts.pipeline
        routes = quoted_routes(parts.catalog)
        if explain.url not in routes:
            raise bad_request(f"'url' must be one of {', '.join(sorted(routes))}.", "url")
        body = msgspec.json.encode(explain.body)
        request = routes[explain.url](body)
        now_s = parts.outside.clock()
        received = Received(parts.new_id("req"), now_s, {}, request, len(body))
        shaped, match = pipeline.matched(received, principal, left_usd, policy)
        call, quote = pipeline.price(shaped.call, match.matched, request.price_max)
        outcome = pipeline.would_decide(call, match, explain.seed)
        left_out: LeftOut = ()
        if isinstance(outcome, Decision):
            own = counted(call, quote, outcome, request, parts.catalog.catalog)
            left_out = models_left_out(outcome, own[2])
        decision = of_decided(outcome, clauses_of(match.policy, match.attributes), left_out)
        priced = [
            PricedCandidate(each, most_nanousd(call, each.model, quote.prices[each.model]))
            for each in decision.candidates
        ]
        return ExplainedRoute(explain.url, call, decision, priced)


def routing_of(request: Request) -> RoutingService:
    return RoutingService(parts_of(request))


Routing = Annotated[RoutingService, Depends(routing_of)]
