"""The traffic of a model, given or measured, and what each way to buy capacity for it costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing import queries
from billing.db.engine import Store
from billing.queries import GroupBy, UsageSum
from gateway.admin.offers.schemas import OfferQuery
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import parts_of
from gateway.catalog.fleet import FleetKeeper
from gateway.errors import bad_request, model_not_found
from gateway.speeds.learner import Learner
from routing.economics.offers import (
    BreakEven,
    MonthCost,
    Setup,
    Traffic,
    break_evens,
    offers,
    setup_of,
)
from routing.economics.targets import target_of
from routing.types import Clock, Offer

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
SINCE_S = 7 * 24 * 3600
TRAFFIC = ("requests_per_day", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class MonthOffers:
    model: str
    traffic: Traffic
    offers: Sequence[MonthCost]
    break_even: Sequence[BreakEven]

    @property
    def cheapest(self) -> Offer:
        return min(self.offers, key=lambda cost: cost.usd_month).offer


@dataclass(frozen=True, slots=True)
class OfferService:
    """Raises ApiError: 404 for an unknown model; 400 for half a traffic, for a model that has no
    pool with a price, and for one that has no calls to measure."""

    fleet: FleetKeeper
    learner: Learner
    ledger: Store
    clock: Clock

    async def offers(self, query: OfferQuery) -> MonthOffers:
        setups = self._setups(query.model)
        traffic = await self._traffic(query)
        return MonthOffers(
            query.model, traffic, offers(setups, traffic), [*break_evens(setups, traffic)]
        )

    def _setups(self, model: str) -> list[Setup]:
        snapshot = self.fleet.snapshot([model])
        if model not in snapshot.models:
            raise model_not_found(model)
        targets = self.learner.predictor.targets
        all_setups = [setup_of(s.pool, targets.get(target_of(s.pool))) for s in snapshot.pools]
        setups = [setup for setup in all_setups if setup is not None]
        if not setups:
            message = f"No pool of '{model}' runs here at a price that is known."
            raise bad_request(message, "model")
        return setups

    async def _traffic(self, query: OfferQuery) -> Traffic:
        fields = {name: getattr(query, name) for name in TRAFFIC}
        options = {name: value for name, value in fields.items() if value is not None}
        peak = {} if query.peak is None else {"peak": query.peak}
        if not options:
            measured = await self._measured(query.model, query.since_s or SINCE_S)
            return measured._replace(**peak)
        if query.since_s is not None:
            raise bad_request("since_s: A traffic is given already.", "since_s")
        for name in TRAFFIC:
            if name not in options:
                raise bad_request(f"{name}: A traffic has all of {', '.join(TRAFFIC)}.", name)
        return Traffic(**options, **peak)

    async def _measured(self, model: str, since_s: int) -> Traffic:
        """Of whole hours; the busiest one says the peak."""
        to_us = round(self.clock() * 1e6) // HOUR_US * HOUR_US + HOUR_US
        from_us = to_us - max(1, round(since_s / 3600)) * HOUR_US
        rows = await attempt(
            lambda: queries.usage_summary(
                *(self.ledger, None, from_us, to_us, [GroupBy.HOUR]), {GroupBy.MODEL: [model]}
            )
        )
        requests = sum(row.requests for row in rows)
        if not requests:
            message = f"'{model}' had no calls in this time: give {', '.join(TRAFFIC)}."
            raise bad_request(message, TRAFFIC[0])
        return _traffic_of(rows, requests, from_us, to_us)


def _traffic_of(hours: Sequence[UsageSum], requests: int, from_us: int, to_us: int) -> Traffic:
    prompts = sum(row.input + row.cached_input + row.cache_write for row in hours)
    mean_per_hour = requests * HOUR_US / (to_us - from_us)
    return Traffic(
        requests_per_day=requests * DAY_US / (to_us - from_us),
        input_tokens=max(1.0, prompts / requests),
        output_tokens=max(1.0, sum(row.output + row.reasoning for row in hours) / requests),
        peak=max(1.0, max(row.requests for row in hours) / mean_per_hour),
    )


async def offers_of(request: Request) -> OfferService:
    parts = parts_of(request)
    return OfferService(parts.fleet, parts.learner, parts.ledger, parts.outside.clock)


Offers = Annotated[OfferService, Depends(offers_of)]
