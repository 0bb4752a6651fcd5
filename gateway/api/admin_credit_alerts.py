"""`/admin/v1/organizations/{id}/credit-alerts`: below which amounts of credit an organization's
operator wants to be told. What was told stands in the list of `/admin/v1/budgets/alerts`."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from billing.credits import alerts
from billing.credits.watch import Threshold, Unit, Watch
from billing.money import nanousd, usd
from billing.store.engine import Store
from gateway.admin.tenants import NotThere
from gateway.api.admin_tenants import attempt
from gateway.api.fields import Label
from gateway.api.needs import parts_of
from gateway.api.shapes import at
from gateway.tables import Organization

router = APIRouter()

EACH_MAX = 20


class CreditAlertsBody(BaseModel):
    """All of them: what is left out is not told of any more."""

    model_config = ConfigDict(extra="forbid")
    below_usd: list[str] = Field([], max_length=EACH_MAX, description="decimal USD, above zero")
    below_percent: list[Annotated[int, Field(strict=True, ge=1, le=100)]] = Field(
        [], max_length=EACH_MAX, description="of what there was when credit last came"
    )

    @field_validator("below_usd")
    @classmethod
    def are_amounts(cls, amounts: list[str]) -> list[str]:
        if any(nanousd(text) <= 0 for text in amounts):
            raise ValueError("an amount is above zero")
        return amounts

    def thresholds(self) -> frozenset[Threshold]:
        amounts = (Threshold(Unit.NANOUSD, nanousd(text)) for text in self.below_usd)
        percents = (Threshold(Unit.PERCENT, percent) for percent in self.below_percent)
        return frozenset((*amounts, *percents))


@router.get("/organizations/{organization_id}/credit-alerts")
async def show_credit_alerts(request: Request, organization_id: Label) -> dict[str, Any]:
    """As of the last movement of its credit."""
    return await _asked(
        request, organization_id, lambda ledger: alerts.watch_of(ledger, organization_id)
    )


@router.put("/organizations/{organization_id}/credit-alerts")
async def set_credit_alerts(
    request: Request, organization_id: Label, body: CreditAlertsBody
) -> dict[str, Any]:
    """Each is told when the credit in force is found below it, at once if it is so now, and again
    only after new credit or a correction has lifted it to the threshold."""
    now_us = round(parts_of(request).outside.clock() * 1e6)
    return await _asked(
        request,
        organization_id,
        lambda ledger: alerts.watch(ledger, organization_id, body.thresholds(), now_us),
    )


async def _asked(
    request: Request, organization: str, work: Callable[[Store], Watch]
) -> dict[str, Any]:
    parts = parts_of(request)

    def of_one_that_is_there() -> Watch:
        if parts.tenants.one(Organization, organization) is None:
            raise NotThere(organization)
        return work(parts.ledger)

    return _shown(await attempt(of_one_that_is_there))


def _shown(watch: Watch) -> dict[str, Any]:
    return {
        "object": "credit_alerts",
        "organization": watch.org,
        **_thresholds(watch.thresholds),
        "granted_usd": usd(watch.granted_nanousd),
        "remaining_usd": usd(watch.left_nanousd),
        "told": _thresholds(watch.below),
    }


def _thresholds(found: frozenset[Threshold]) -> dict[str, Any]:
    ordered = sorted(found)
    return {
        "below_usd": [usd(value) for unit, value in ordered if unit is Unit.NANOUSD],
        "below_percent": [value for unit, value in ordered if unit is Unit.PERCENT],
    }


def credit_alert(row: dict[str, Any]) -> dict[str, Any]:
    """One line of the list of alerts."""
    is_percent = row["unit"] == Unit.PERCENT
    return {
        "object": "credit.alert",
        "organization": row["org"],
        "percent": row["threshold"] if is_percent else None,
        "limit_usd": usd(row["limit_nanousd"]),
        "remaining_usd": usd(row["left_nanousd"]),
        "granted_usd": usd(row["granted_nanousd"]),
        "raised_at": at(row["raised_us"]),
    }
