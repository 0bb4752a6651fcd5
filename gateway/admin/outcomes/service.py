"""What canary and shadow of a version of the policy chose, of late."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final

from fastapi import Depends, Request

from billing import queries
from billing.prices.rating import rate
from billing.types import Usage
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.decisions.record import DecisionRecord
from gateway.decisions.shadows import ShadowSummary, shadow_summaries
from gateway.decisions.sides import CanaryOutcome, canary_outcomes
from gateway.parts import Parts
from routing.cost import expected_output_tokens
from routing.policy.rules import RoutingPolicy
from routing.types import RefusalKind

CALLS_MAX: Final = 10_000
"""Calls of canaries that are counted: the newest ones."""
RECORDS_MAX: Final = 20_000
"""Records of decisions that are looked at for shadows: the newest ones."""
HOUR_US: Final = 3_600_000_000
DECIDED: Final = tuple(kind.value for kind in RefusalKind)


@dataclass(frozen=True, slots=True)
class PolicyOutcomes:
    """`from_us` is later than was asked for where there were more than `CALLS_MAX` calls of
    canaries: then both sides are counted since the oldest of the newest ones."""

    version: int
    from_us: int
    to_us: int
    canaries: Sequence[CanaryOutcome]
    shadows: Sequence[ShadowSummary]


@dataclass(frozen=True, slots=True)
class OutcomeService:
    parts: Parts

    async def of_version(self, version: int, hours: int) -> PolicyOutcomes:
        """Raises ApiError 404 for an unknown version."""
        return await attempt(lambda: self.counted(version, hours))

    def counted(self, version: int, hours: int) -> PolicyOutcomes:
        """Blocking. Raises NotThere for a version that is unknown, or cannot be read any more."""
        policy = self.parts.decision_reader.versions.of(version)
        if policy is None:
            raise NotThere(version)
        to_us = round(self.parts.outside.clock() * 1e6)
        from_us = to_us - hours * HOUR_US
        records = self.parts.decision_reader.newest(from_us)
        shadows = shadow_summaries(policy, islice(records, RECORDS_MAX), self._price)
        canary_from_us, canaries = self._canaries(policy, from_us, to_us)
        return PolicyOutcomes(version, canary_from_us, to_us, canaries, shadows)

    def _canaries(
        self, policy: RoutingPolicy, from_us: int, to_us: int
    ) -> tuple[int, list[CanaryOutcome]]:
        ledger, version = self.parts.ledger, policy.revision
        calls = queries.canary_calls(ledger, version, from_us, to_us, CALLS_MAX)
        if len(calls) == CALLS_MAX:
            from_us = calls[-1].ended_us
        refused = queries.canary_refusals(ledger, version, from_us, to_us, DECIDED)
        return from_us, canary_outcomes(policy, calls, refused)

    def _price(self, record: DecisionRecord, model: str) -> int | None:
        """By the prices of the call's instant, for the tokens that were expected of it."""
        call = record.call
        at_us = round(record.snapshot.at_s * 1e6)
        tariff = self.parts.catalog.prices.tariff(at_us, call.organization)
        prices = None if tariff is None else tariff.prices.get((model, call.tier, False))
        if prices is None:
            return None
        output = round(expected_output_tokens(call))
        usage = Usage(input=call.likely_prompt_tokens(model), output=output)
        return rate(usage, prices).amount_nanousd


def outcomes_of(request: Request) -> OutcomeService:
    return OutcomeService(parts_of(request))


Outcomes = Annotated[OutcomeService, Depends(outcomes_of)]
