"""Calls as the ledger has them, with what they cost us."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from billing.costs.attempts import above_hold
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import parts_of
from gateway.catalog.catalog import CatalogKeeper
from gateway.decisions.booked import BookedCalls, NotBooked
from gateway.errors import ApiError
from gateway.public.generations.service import ExplainedCall


class AboveHold(NamedTuple):
    """Tokens that the server reported above what was held, and nobody was charged for."""

    prompt: int = 0
    completion: int = 0


class CostedCall(ExplainedCall):
    @property
    def cogs(self) -> "CostedCall":
        return self

    @property
    def wasted_nanousd(self) -> int:
        """What the attempts cost that served nobody."""
        return sum(each["cost_nanousd"] for each in self.attempts if not each["served"])

    @property
    def margin_nanousd(self) -> int:
        return self.amount_nanousd - self.cost_nanousd

    @property
    def tokens_above_hold(self) -> AboveHold:
        for each in self.attempts:
            if each["served"]:
                return AboveHold(*above_hold(each, self.usage))
        return AboveHold()


@dataclass(frozen=True, slots=True)
class RequestService:
    calls: BookedCalls
    catalog: CatalogKeeper

    async def explain(self, request_id: str) -> CostedCall:
        """A call that has just ended is waited for. Raises ApiError 404."""
        try:
            call = await self.calls.whole(request_id)
        except NotBooked as missing:
            raise ApiError(404, f"No request '{request_id}'.", code="not_found") from missing
        decision = await attempt(lambda: self.calls.decisions.explained(call))
        return CostedCall.of(call, decision, self.catalog.prices)


def requests_of(request: Request) -> RequestService:
    parts = parts_of(request)
    return RequestService(parts.booked_calls, parts.catalog)


Requests = Annotated[RequestService, Depends(requests_of)]
