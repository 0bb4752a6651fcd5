"""`/admin/v1/budgets`: the one that the limits of a scope have, those over windows of an
organization, project, key or their end users, and their alerts."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request

from gateway.admin.budgets.schemas import (
    BudgetAlert,
    BudgetChange,
    NewBudget,
    ScopeBudget,
    ScopeBudgetBody,
    WindowBudget,
)
from gateway.admin.budgets.service import Budgets
from gateway.admin.credits.schemas import CreditAlert
from gateway.api.fields import EpochS
from gateway.api.pages import Paged, PagedBy100
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(prefix="/budgets", tags=["budgets"])

ALERTS = "alerts"
BudgetOfScope = Annotated[
    str,
    Path(
        alias="budget",
        pattern=r"^(org|project|key):.+$",
        description="`org:ID`, `project:ID` or `key:ID`: the one budget that its limits have",
    ),
]
BudgetId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
EndUser = Annotated[str, Query(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]


def of_one_budget(request: Request) -> None:
    """The list of alerts is no budget, and takes nothing that a budget takes."""
    if request.path_params["budget"] == ALERTS:
        raise HTTPException(405)


OfOneBudget = Depends(of_one_budget)


@router.put("/{budget}", dependencies=[OfOneBudget], response_model=ScopeBudget)
async def set_scope_budget(budgets: Budgets, scope: BudgetOfScope, body: ScopeBudgetBody) -> Any:
    return await budgets.set_of_scope(scope, body)


@router.get("", response_model=Page[WindowBudget | ScopeBudget])
async def list_budgets(budgets: Budgets, request: Paged) -> Any:
    """Those of the limits of scopes first, which have no id, then those over windows."""
    return await budgets.page(request)


@router.post("", status_code=201, response_model=WindowBudget)
async def create_budget(budgets: Budgets, body: NewBudget) -> Any:
    """Counts calls that are admitted from now on."""
    return await budgets.create(body)


@router.get("/alerts", response_model=Page[BudgetAlert | CreditAlert])
async def list_alerts(
    budgets: Budgets,
    request: PagedBy100,
    organization: Label | None = None,
    budget: Label | None = None,
    before: EpochS | None = Query(None, description="only those raised before; epoch seconds"),
) -> Any:
    """The newest first. Those of credit that ran low stand among them, unless one budget is asked
    for."""
    before_us = None if before is None else before * 1_000_000
    return await budgets.alerts(request, organization, budget, before_us)


@router.get("/{budget}", response_model=WindowBudget)
async def get_budget(budgets: Budgets, budget: BudgetId, end_user: EndUser | None = None) -> Any:
    """`end_user`: how a budget of each end user stands for one of them."""
    return await budgets.budget(budget, end_user)


@router.patch("/{budget}", dependencies=[OfOneBudget], response_model=WindowBudget)
async def change_budget(budgets: Budgets, budget: BudgetId, body: BudgetChange) -> Any:
    """In force at once here, within seconds in other gateways; open calls go on under the amount
    they were admitted with."""
    return await budgets.change(budget, body)


@router.delete("/{budget}", dependencies=[OfOneBudget], response_model=WindowBudget)
async def end_budget(budgets: Budgets, budget: BudgetId) -> Any:
    """It binds nothing any more; what it counted and told stays."""
    return await budgets.end(budget)
