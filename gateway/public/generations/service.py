"""What became of a call, from the ledger."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from fastapi import Depends, Request

from billing.charges.trace import BilledCall, billed_call
from billing.prices.book import PriceBook, Unpriced
from billing.prices.rating import rate
from billing.queries import CallRecord, newest_calls
from billing.usage.store import CallFilter
from billing.usage.tables import NumberedRecord, UsageRecord
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.catalog.catalog import CatalogKeeper
from gateway.decisions.booked import LEDGER_LAG_S, BookedCalls, NotBooked
from gateway.decisions.explained import ExplainedDecision, PricedCandidate, RefusalWords
from gateway.errors import ApiError
from routing.types import Candidate


@dataclass(frozen=True, slots=True)
class CallFigures:
    """`cogs_nanousd` is the operator's alone."""

    ttft_s: float | None
    cogs_nanousd: int | None


class ExplainedCall(NumberedRecord):
    """A call as it is booked, with why it went where it went."""

    decision: ExplainedDecision
    candidates: Sequence[PricedCandidate]
    attempts: Sequence[dict[str, Any]]
    records: Sequence[NumberedRecord]
    transfers: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, call: CallRecord, decision: ExplainedDecision, book: PriceBook) -> Self:
        used = call.usage
        of_older_row = {"rule": decision.rule, "policy_revision": decision.policy_revision}
        return cls(
            **used.model_dump() | (of_older_row if used.rule is None else {}),
            decision=decision,
            candidates=[
                PricedCandidate(each, price_nanousd(each, used, book))
                for each in decision.candidates
            ],
            attempts=[attempt | {"usage": attempt} for attempt in call.attempts],
            records=call.records,
            transfers=call.transfers,
        )

    @property
    def refusal(self) -> RefusalWords | None:
        return self.decision.refusal

    @property
    def predicted(self) -> CallFigures:
        """Of the candidate that served. All empty where nobody did, or another pool took over."""
        for each in self.decision.candidates:
            if self.pool and (each.pool, each.model) == (self.pool, self.model):
                return CallFigures(each.ttft_s, each.cost_nanousd)
        return CallFigures(None, None)

    @property
    def observed(self) -> CallFigures:
        if self.first_token_us is None:
            return CallFigures(None, self.cost_nanousd)
        return CallFigures((self.first_token_us - self.admitted_us) / 1e6, self.cost_nanousd)

    @property
    def wait(self) -> Self | None:
        return None if self.wait_pool is None else self

    @property
    def timeline(self) -> UsageRecord:
        return self

    @property
    def charge(self) -> UsageRecord:
        return self


def price_nanousd(candidate: Candidate, used: UsageRecord, book: PriceBook) -> int | None:
    """What the call's usage costs on a candidate's model; None where nobody knows any more, or the
    call used nothing because it was refused."""
    if not used.price_version:
        return None
    if candidate.model == used.model:
        return used.amount_nanousd
    prices = book.of_version(used.price_version, candidate.model, candidate.tier, used.batch)
    return None if isinstance(prices, Unpriced) else rate(used.usage, prices).amount_nanousd


@dataclass(frozen=True, slots=True)
class GenerationService:
    calls: BookedCalls
    catalog: CatalogKeeper

    async def page(self, request: PageRequest, only: CallFilter) -> PageRows[NumberedRecord]:
        """The newest first, by when their first record ended."""

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, NumberedRecord]]:
            before = None if behind is None else (behind[0], behind[1])
            calls = newest_calls(self.calls.ledger, limit, only, before=before)
            return [((ended_us, call.rid), call) for ended_us, call in calls]

        return await attempt(lambda: read_page(request, Source((int, str), read)))

    async def explain(self, request_id: str, organization: str) -> ExplainedCall:
        """The ledger is a moment behind; within that moment this waits for it rather than raise
        ApiError 404."""
        try:
            call = await self.calls.whole(request_id, organization)
        except NotBooked as missing:
            raise _no_generation(missing, request_id) from missing
        decision = await asyncio.to_thread(self.calls.decisions.explained, call)
        return ExplainedCall.of(call, decision, self.catalog.prices)

    async def billed(self, request_id: str, organization: str | None) -> BilledCall:
        """Raises ApiError 404."""
        try:
            await self.calls.whole(request_id, organization)
        except NotBooked as missing:
            raise _no_generation(missing, request_id) from missing
        return await asyncio.to_thread(billed_call, self.calls.ledger, request_id)


def _no_generation(missing: NotBooked, request_id: str) -> ApiError:
    if not missing.may_come:
        return ApiError(404, f"No generation '{request_id}'.", code="not_found")
    message = f"The generation '{request_id}' has not ended, or is not in the ledger yet."
    return ApiError(404, message, code="not_found", retry_after_s=LEDGER_LAG_S)


def generations_of(request: Request) -> GenerationService:
    parts = parts_of(request)
    return GenerationService(parts.booked_calls, parts.catalog)


Generations = Annotated[GenerationService, Depends(generations_of)]
