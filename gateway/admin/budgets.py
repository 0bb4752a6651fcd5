"""Budgets over windows: use cases of an administrator.

Blocking; each is one transaction with its audit row and a new catalog revision, by which gateways
notice. A window, an owner and a hardness never change: what has been counted would not fit them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from billing.budgets.budget import Budget, digest_of
from billing.budgets.rows import BudgetRow
from billing.budgets.windows import Window, checked
from billing.store import budgets as rows
from gateway.admin.tenants import NotThere, must_get_owner
from gateway.identity import NewId
from gateway.store import EVERY_USER, Conflict, TenantStore
from gateway.tables import Audit
from routing.types import Clock

BUDGETS_PER_OWNER_MAX = 20
"""Those that bind every call of an owner; each of them costs each of its calls."""


@dataclass(frozen=True, slots=True)
class Budgets:
    store: TenantStore
    new_id: NewId
    clock: Clock

    def create(
        self,
        *,
        owner: str,
        end_user: str,
        name: str,
        amount_nanousd: int,
        is_hard: bool,
        window: Window,
        alert_percents: Sequence[int],
    ) -> Budget:
        """Counts what is admitted from now on. Raises NotThere, Conflict or BadWindow."""
        row = BudgetRow(
            budget_id=self.new_id("bud"),
            org=self.store.organization_of(owner),
            owner=owner,
            end_user=end_user,
            subject=digest_of(end_user) if end_user not in ("", EVERY_USER) else "",
            name=name,
            amount_nanousd=amount_nanousd,
            is_hard=is_hard,
            alert_percents=sorted(set(alert_percents)),
            created_us=self._now_us(),
            **rows.columns_of(checked(window)),
        )

        def work(session: Session) -> BudgetRow:
            must_get_owner(session, owner)
            there = rows.listed(session.connection(), owner=owner, end_user=end_user)
            if len(there) >= BUDGETS_PER_OWNER_MAX:
                raise Conflict(f"{owner} has {BUDGETS_PER_OWNER_MAX} such budgets, the most it may")
            session.add(row)
            return row

        return rows.budget_of(self.store.change(self._audit("create", row), work))

    def change(self, budget_id: str, changes: dict[str, Any]) -> Budget:
        """Another name, amount or other thresholds. Raises NotThere."""

        def work(session: Session) -> BudgetRow:
            row = _must_get(session, budget_id)
            row.sqlmodel_update(changes)
            session.add(row)
            return row

        audit = self._audit_of("change", budget_id, **changes)
        return rows.budget_of(self.store.change(audit, work))

    def end(self, budget_id: str) -> Budget:
        """It binds no call that is admitted from now on; what it counted stays. Raises NotThere."""

        def work(session: Session) -> BudgetRow:
            row = _must_get(session, budget_id)
            row.ended_us = self._now_us()
            session.add(row)
            return row

        return rows.budget_of(self.store.change(self._audit_of("end", budget_id), work))

    def find(self, budget_id: str) -> Budget:
        """Also one that has ended. Raises NotThere."""
        row = self.store.one(BudgetRow, budget_id)
        if row is None:
            raise NotThere(budget_id)
        return rows.budget_of(row)

    def _audit(self, action: str, row: BudgetRow) -> Audit:
        detail = row.model_dump(exclude={"budget_id", "created_us", "ended_us"})
        return self._audit_of(action, row.budget_id, **detail)

    def _audit_of(self, action: str, budget_id: str, **detail: Any) -> Audit:
        return Audit(
            at_us=self._now_us(),
            actor="admin",
            action=f"budget.{action}",
            object=budget_id,
            detail=detail,
        )

    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _must_get(session: Session, budget_id: str) -> BudgetRow:
    row = session.get(BudgetRow, budget_id)
    if row is None or row.ended_us is not None:
        raise NotThere(budget_id)
    return row
