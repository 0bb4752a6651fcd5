"""Budgets as an administrator keeps them.

A window, an owner and a hardness never change: what has been counted would not fit them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlmodel import Session, col

from billing.budgets import store as rows
from billing.budgets.budget import EACH_USER, Budget, digest_of
from billing.budgets.tables import BudgetRow
from billing.budgets.windows import checked
from billing.credits import watch_store
from billing.db.engine import Store
from billing.limits.types import ScopeLimits
from gateway.admin.budgets.schemas import BudgetChange, NewBudget, ScopeBudgetBody, check_amount
from gateway.admin.limits.service import LimitService
from gateway.admin.use_cases import AdminStore, NotThere, admin_store, attempt, must_get_owner
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, of_table, read_page
from gateway.call.admission import Accounts
from gateway.errors import bad_request
from gateway.limits.budgets import StandingBudget, Standings
from gateway.limits.tables import Limits
from gateway.tenants.ids import NewId
from gateway.tenants.store import Conflict

BUDGETS_PER_OWNER_MAX = 20
"""Those that bind every call of an owner; each of them costs each of its calls."""

Alert = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScopeSpending:
    """The budget of a scope's limits, with what is spent and held of it now."""

    limits: Limits
    spent_nanousd: int
    held_nanousd: int


@dataclass(frozen=True, slots=True)
class BudgetService:
    """Raises ApiError: 404 for an unknown owner or budget, 409 for one too many, 503 where Redis is
    away and says how a hard one stands."""

    store: AdminStore
    limits: LimitService
    ledger: Store
    standings: Standings
    accounts: Accounts
    new_id: NewId

    async def set_of_scope(self, scope: str, body: ScopeBudgetBody) -> ScopeSpending:
        columns: dict[str, Any] = {"budget_nanousd": body.limit_usd}
        if "window" in body.model_fields_set:
            columns["budget_window"] = body.window
        return await self._spending(await self.limits.set_own(scope, columns))

    async def _spending(self, limits: Limits) -> ScopeSpending:
        organization = await attempt(lambda: self.store.tenants.organization_of(limits.scope))
        money = await self.accounts.spent_and_held(organization, ScopeLimits(**limits.model_dump()))
        return ScopeSpending(limits, *money)

    async def page(self, request: PageRequest) -> PageRows[ScopeSpending | StandingBudget]:
        """Those of the limits of scopes first, which have no id, then those over windows that have
        not ended."""
        has_budget = col(Limits.budget_nanousd).is_not(None)
        of_scopes = of_table(self.store.tenants, Limits, None, has_budget)
        page = await attempt(lambda: read_page(request, of_scopes, self._over_windows()))
        scopes = [await self._spending(row) for row in page.data if isinstance(row, Limits)]
        budgets = [row for row in page.data if isinstance(row, Budget)]
        return PageRows([*scopes, *await self.standings.of_budgets(budgets)], page.after)

    def _over_windows(self) -> Source[Budget]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Budget]]:
            with self.ledger.read() as conn:
                budgets = rows.listed(conn, behind=behind, limit=limit)
            return [((budget.created_us, budget.budget_id), budget) for budget in budgets]

        return Source((int, str), read)

    async def budget(self, budget_id: str, end_user: str | None = None) -> StandingBudget:
        """Also one that has ended. Raises ApiError 400 for an end user who is not its own."""
        budget = await attempt(lambda: self._find(budget_id))
        if end_user is not None and budget.end_user not in (EACH_USER, end_user):
            raise bad_request("The budget is not one of that end user.", "end_user")
        return await self._standing(budget, end_user)

    async def create(self, body: NewBudget) -> StandingBudget:
        """It counts what is admitted from now on."""
        row = await attempt(lambda: self._row(body))

        def work(session: Session) -> BudgetRow:
            must_get_owner(session, row.owner)
            there = rows.listed(session.connection(), owner=row.owner, end_user=row.end_user)
            if len(there) >= BUDGETS_PER_OWNER_MAX:
                most = f"has {BUDGETS_PER_OWNER_MAX} such budgets, the most it may"
                raise Conflict(f"{row.owner} {most}")
            session.add(row)
            return row

        detail = row.model_dump(exclude={"budget_id", "created_us", "ended_us"})
        return await self._change("create", row.budget_id, work, **detail)

    def _row(self, body: NewBudget) -> BudgetRow:
        owner, _, end_user = body.scope.partition("/user:")
        return BudgetRow(
            budget_id=self.new_id("bud"),
            org=self.store.tenants.organization_of(owner),
            owner=owner,
            end_user=end_user,
            subject=digest_of(end_user) if end_user not in ("", EACH_USER) else "",
            name=body.name,
            amount_nanousd=body.limit_usd,
            is_hard=body.hard,
            alert_percents=sorted(set(body.alerts)),
            created_us=self.store.now_us,
            **rows.columns_of(checked(body.window.window())),
        )

    async def change(self, budget_id: str, body: BudgetChange) -> StandingBudget:
        """Another name, amount or other thresholds."""
        if body.limit_usd is not None:
            budget = await attempt(lambda: self._find(budget_id))
            try:
                check_amount(body.limit_usd, budget.is_hard)
            except ValueError as wrong:
                raise bad_request(f"limit_usd: {wrong}", "limit_usd") from wrong
        columns = body.columns()

        def work(session: Session) -> BudgetRow:
            row = _must_get_open(session, budget_id)
            row.sqlmodel_update(columns)
            session.add(row)
            return row

        return await self._change("change", budget_id, work, **columns)

    async def end(self, budget_id: str) -> StandingBudget:
        """It binds no call that is admitted from now on; what it counted stays."""

        def work(session: Session) -> BudgetRow:
            row = _must_get_open(session, budget_id)
            row.ended_us = self.store.now_us
            session.add(row)
            return row

        return await self._change("end", budget_id, work)

    async def _change(
        self, action: str, budget_id: str, work: Callable[[Session], BudgetRow], /, **detail: Any
    ) -> StandingBudget:
        row = await self.store.change(f"budget.{action}", budget_id, work, **detail)
        return await self._standing(rows.budget_of(row))

    async def _standing(self, budget: Budget, end_user: str | None = None) -> StandingBudget:
        (standing,) = await self.standings.of_budgets([budget], end_user)
        return standing

    def _find(self, budget_id: str) -> Budget:
        row = self.store.tenants.one(BudgetRow, budget_id)
        if row is None:
            raise NotThere(budget_id)
        return rows.budget_of(row)

    async def alerts(
        self,
        request: PageRequest,
        organization: str | None,
        budget: str | None,
        before_us: int | None,
    ) -> PageRows[Alert]:
        """The newest first, those of credit that ran low among them, unless one budget is asked
        for."""

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Alert]]:
            """A key is an instant and how many of it were read: they are only ever added, at the
            end."""
            from_us, skipped = (before_us, 0) if behind is None else (behind[0] + 1, behind[1])
            some: dict[str, Any] = {
                "org": organization,
                "before_us": from_us,
                "limit": limit + skipped,
            }
            with self.ledger.read() as conn:
                alerts = rows.alerts(conn, budget_id=budget, **some)
                alerts += watch_store.alerts(conn, **some) if budget is None else []
            newest_first = sorted(alerts, key=lambda alert: -alert["raised_us"])
            return _numbered(newest_first)[skipped:][:limit]

        return await asyncio.to_thread(lambda: read_page(request, Source((int, int), read)))


def _must_get_open(session: Session, budget_id: str) -> BudgetRow:
    row = session.get(BudgetRow, budget_id)
    if row is None or row.ended_us is not None:
        raise NotThere(budget_id)
    return row


def _numbered(alerts: Sequence[Alert]) -> list[tuple[Key, Alert]]:
    """Each by its instant and how many of that instant there are up to it."""
    numbers: Counter[int] = Counter()
    numbered = []
    for alert in alerts:
        raised_us = alert["raised_us"]
        numbers[raised_us] += 1
        numbered.append(((raised_us, numbers[raised_us]), alert))
    return numbered


async def budgets_of(request: Request) -> BudgetService:
    parts = parts_of(request)
    store = admin_store(parts)
    return BudgetService(
        store=store,
        limits=LimitService(store),
        ledger=parts.ledger,
        standings=parts.standings,
        accounts=parts.accounts,
        new_id=parts.new_id,
    )


Budgets = Annotated[BudgetService, Depends(budgets_of)]
