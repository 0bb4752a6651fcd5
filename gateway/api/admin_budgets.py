"""Budgets: the one that the limits of a scope have, those over windows of an organization, project,
key or their end users, and their alerts."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request

from billing.budgets.budget import EACH_USER, Budget
from billing.limits.types import ScopeLimits
from billing.money import nanousd, usd
from billing.store import budgets as rows
from billing.store import watches
from gateway.admin.budgets import Budgets
from gateway.api.admin_credit_alerts import credit_alert
from gateway.api.admin_tenants import attempt, tenants_of
from gateway.api.budget_bodies import BudgetChange, NewBudget, ScopeBudgetBody, check_amount
from gateway.api.budget_shapes import alert, with_standings
from gateway.api.fields import EpochS, Label
from gateway.api.needs import parts_of
from gateway.errors import bad_request
from gateway.tables import Limits

router = APIRouter()

BudgetOfScope = Annotated[
    str,
    Path(
        alias="budget",
        pattern=r"^(org|project|key):.+$",
        description="`org:ID`, `project:ID` or `key:ID`: the one budget that its limits have",
    ),
]
ALERTS = "alerts"


def of_one_budget(request: Request) -> None:
    """The list of alerts is no budget, and takes nothing that a budget takes."""
    if request.path_params["budget"] == ALERTS:
        raise HTTPException(405)


OfOneBudget = Depends(of_one_budget)
BudgetId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
EndUser = Annotated[str, Query(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]


def use_cases(request: Request) -> Budgets:
    parts = parts_of(request)
    return Budgets(parts.tenants, parts.new_id, parts.outside.clock)


@router.put("/budgets/{budget}", dependencies=[OfOneBudget])
async def set_scope_budget(
    request: Request, scope: BudgetOfScope, body: ScopeBudgetBody
) -> dict[str, Any]:
    tenants = tenants_of(request)
    amount = None if body.limit_usd is None else nanousd(body.limit_usd)
    changes: dict[str, Any] = {"budget_nanousd": amount}
    if "window" in body.model_fields_set:
        changes["budget_window"] = body.window
    row = await attempt(lambda: tenants.set_limits(scope, changes))
    parts_of(request).keys.forget()
    return await scope_budget(request, row)


@router.get("/budgets")
async def list_budgets(request: Request) -> dict[str, Any]:
    """Those of the limits of scopes first, which have no id, then those over windows."""
    found = await attempt(lambda: parts_of(request).tenants.every(Limits))
    kept = [row for row in found if row.budget_nanousd is not None]
    of_scopes = [await scope_budget(request, row) for row in kept]
    return {"object": "list", "data": of_scopes + await every_budget(request)}


@router.post("/budgets", status_code=201)
async def create_budget(request: Request, body: NewBudget) -> dict[str, Any]:
    """Counts calls that are admitted from now on."""
    owner, _, user = body.scope.partition("/user:")
    made = await attempt(
        lambda: use_cases(request).create(
            owner=owner,
            end_user=user,
            name=body.name,
            amount_nanousd=nanousd(body.limit_usd),
            is_hard=body.hard,
            window=body.window.window(),
            alert_percents=body.alerts,
        )
    )
    parts_of(request).keys.forget()
    return (await told(request, [made]))[0]


@router.get("/budgets/alerts")
async def list_alerts(
    request: Request,
    organization: Label | None = None,
    budget: Label | None = None,
    before: EpochS | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """The newest first; `before` (epoch seconds) is where to go on. Those of credit that ran low
    stand among them, unless one budget is asked for."""
    before_us = None if before is None else before * 1_000_000
    ledger = parts_of(request).ledger

    def read() -> list[tuple[int, dict[str, Any]]]:
        some: dict[str, Any] = {"org": organization, "before_us": before_us, "limit": limit}
        with ledger.read() as conn:
            of_budgets = rows.alerts(conn, budget_id=budget, **some)
            of_credits = watches.alerts(conn, **some) if budget is None else []
        told = [(row["raised_us"], alert(row)) for row in of_budgets]
        return told + [(row["raised_us"], credit_alert(row)) for row in of_credits]

    found = sorted(await asyncio.to_thread(read), key=lambda each: -each[0])[:limit]
    return {"object": "list", "data": [shown for _, shown in found]}


@router.get("/budgets/{budget}")
async def get_budget(
    request: Request, budget: BudgetId, end_user: EndUser | None = None
) -> dict[str, Any]:
    """`end_user`: how a budget of each end user stands for one of them."""
    found = await attempt(lambda: use_cases(request).find(budget))
    if end_user is not None and found.end_user not in (EACH_USER, end_user):
        raise bad_request("The budget is not one of that end user.", "end_user")
    return (await told(request, [found], end_user))[0]


@router.patch("/budgets/{budget}", dependencies=[OfOneBudget])
async def change_budget(request: Request, budget: BudgetId, body: BudgetChange) -> dict[str, Any]:
    """In force at once here, within seconds in other gateways; open calls go on under the amount
    they were admitted with."""
    changes: dict[str, Any] = {}
    if body.name is not None:
        changes["name"] = body.name
    if body.alerts is not None:
        changes["alert_percents"] = sorted(set(body.alerts))
    if body.limit_usd is not None:
        before = await attempt(lambda: use_cases(request).find(budget))
        try:
            changes["amount_nanousd"] = check_amount(body.limit_usd, before.is_hard)
        except ValueError as wrong:
            raise bad_request(f"limit_usd: {wrong}", "limit_usd") from wrong
    changed = await attempt(lambda: use_cases(request).change(budget, changes))
    parts_of(request).keys.forget()
    return (await told(request, [changed]))[0]


@router.delete("/budgets/{budget}", dependencies=[OfOneBudget])
async def end_budget(request: Request, budget: BudgetId) -> dict[str, Any]:
    """It binds nothing any more; what it counted and told stays."""
    ended = await attempt(lambda: use_cases(request).end(budget))
    parts_of(request).keys.forget()
    return (await told(request, [ended]))[0]


async def every_budget(request: Request) -> list[dict[str, Any]]:
    """All that have not ended, with how they stand."""
    ledger = parts_of(request).ledger

    def read() -> list[Budget]:
        with ledger.read() as conn:
            return rows.listed(conn)

    return await told(request, await asyncio.to_thread(read))


async def told(
    request: Request, found: Sequence[Budget], end_user: str | None = None
) -> list[dict[str, Any]]:
    return await with_standings(parts_of(request).standings, found, end_user)


async def scope_budget(request: Request, row: Limits) -> dict[str, Any]:
    """The budget of a scope's limits, with what is spent and held of it now."""
    parts = parts_of(request)
    organization_id = await attempt(lambda: parts.tenants.organization_of(row.scope))
    spent_nanousd, held_nanousd = await parts.accounts.spent_and_held(
        organization_id, ScopeLimits(**row.model_dump())
    )
    return {
        "object": "budget",
        "scope": row.scope,
        "window": row.budget_window,
        "limit_usd": None if row.budget_nanousd is None else usd(row.budget_nanousd),
        "spent_usd": usd(spent_nanousd),
        "held_usd": usd(held_nanousd),
    }
