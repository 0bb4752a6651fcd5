"""Quotes of calls. Nothing is taken, nothing runs.

Walks steps 2 to 4 of the journey, which take nothing, with the very code that calls walk.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import Depends, Request

from billing.prices.book import Prices
from billing.prices.rating import dearest, rate
from billing.types import Usage
from gateway.api.dependencies import parts_of
from gateway.call.estimates import counted
from gateway.call.open_call import Quote, granted_at_first
from gateway.call.priced_call import Received
from gateway.call.request import GeneratingRequest
from gateway.decisions.explained import PricedCandidate
from gateway.errors import ApiError
from gateway.parts import Parts
from gateway.policies.matching import PolicyMatch
from gateway.server.routes import quoted_routes
from gateway.tenants.auth import Principal
from gateway.wire.bodies.checks import check_fields, json_object, one_of
from routing.types import Call


@dataclass(frozen=True, slots=True)
class ModelQuote:
    """What the prompt costs where none of it is cached, and the most that the call may cost."""

    model: str
    prompt_tokens: int
    prompt_nanousd: int
    request_nanousd: int
    max_nanousd: int


@dataclass(frozen=True, slots=True)
class QuotedOutcome:
    """The decision as it would fall now, with what is held at first; or the error that the call
    would get."""

    hold_nanousd: int
    rule: str | None = None
    policy_revision: int | None = None
    candidates: Sequence[PricedCandidate] = ()
    error: Mapping[str, Any] | None = None


class CallQuote(NamedTuple):
    url: str
    call: Call
    prices: Quote
    models: Sequence[ModelQuote]
    outcome: QuotedOutcome


@dataclass(frozen=True, slots=True)
class QuoteService:
    parts: Parts

    async def quote(self, caller: Principal, headers: Mapping[str, str], body: bytes) -> CallQuote:
        """Raises ApiError: 400 or 404 for a body or its call, 429 for too many free calls."""
        counting, left_usd = self.parts.counting, await self.parts.pipeline.remaining_usd(caller)
        arguments = caller, dict(headers), body, left_usd
        return await counting.free(caller, len(body), self._quote, *arguments)

    def _quote(
        self, caller: Principal, headers: dict[str, str], body: bytes, left_usd: float
    ) -> CallQuote:
        parts = self.parts
        url, request = self._parsed(body)
        now_s = parts.outside.clock()
        received = Received(parts.new_id("req"), now_s, headers, request, len(body))
        shaped, match = parts.pipeline.matched(received, caller, left_usd)
        call, quote = parts.pipeline.price(shaped.call, match.matched, request.price_max)
        call, outcome = self._outcome(call, match, quote, request)
        return CallQuote(
            url=url,
            call=call,
            prices=quote,
            models=[_of_model(call, model, prices) for model, prices in quote.prices.items()],
            outcome=outcome,
        )

    def _parsed(self, body: bytes) -> tuple[str, GeneratingRequest]:
        """As a line of a batch: the route, and the body that it would get."""
        routes = quoted_routes(self.parts.catalog)
        checks = {"url": one_of(*routes), "body": _anything}
        check_fields(json_object(body), checks, "url", "body")
        line = msgspec.json.decode(body, type=_BatchLine)
        return line.url, routes[line.url](bytes(line.body))

    def _outcome(
        self, call: Call, match: PolicyMatch, quote: Quote, request: GeneratingRequest
    ) -> tuple[Call, QuotedOutcome]:
        """With the call as it would be admitted."""
        slice_tokens = self.parts.settings.gateway.output_slice_tokens
        try:
            decision = self.parts.pipeline.decide(call, match, request.payload)
            call, ends, decision = counted(
                call, quote, decision, request, self.parts.catalog.catalog
            )
        except ApiError as refused:
            hold_nanousd = quote.hold_nanousd(call, min(call.output_tokens_max, slice_tokens))
            return call, QuotedOutcome(
                hold_nanousd, error=refused.as_dict() | {"status": refused.status}
            )
        return call, QuotedOutcome(
            hold_nanousd=ends.hold_nanousd(call, granted_at_first(call, decision, slice_tokens)),
            rule=decision.rule,
            policy_revision=decision.policy_revision,
            candidates=[
                PricedCandidate(each, most_nanousd(call, each.model, quote.prices[each.model]))
                for each in decision.candidates
            ],
        )


class _BatchLine(msgspec.Struct):
    """What passed the checks; the body byte for byte."""

    url: str
    body: msgspec.Raw


def _anything(name: str, value: object) -> None:
    """The route that is asked about checks it."""


def _of_model(call: Call, model: str, prices: Prices) -> ModelQuote:
    prompt_tokens = call.prompt_tokens[model]
    prompt = rate(Usage(input=prompt_tokens), prices)
    return ModelQuote(
        model=model,
        prompt_tokens=prompt_tokens,
        prompt_nanousd=prompt.input_nanousd,
        request_nanousd=prompt.request_nanousd,
        max_nanousd=most_nanousd(call, model, prices),
    )


def most_nanousd(call: Call, model: str, prices: Prices) -> int:
    units = call.units.get(model, 0)
    usage = dearest(
        call.prompt_tokens[model], call.output_tokens_max, prices, call.unit if units else "", units
    )
    return rate(usage, prices).amount_nanousd


async def quotes_of(request: Request) -> QuoteService:
    return QuoteService(parts_of(request))


Quotes = Annotated[QuoteService, Depends(quotes_of)]
