"""What a budget is, whom it binds, and where in it a call counts. Pure.

A hard budget stops calls before it is overspent. A soft budget is only watched. A calendar counts a
call in the period in which the call was admitted. A rolling span counts it in the part in which the
call ended. So calls that ended within any span of that length never exceed a hard budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from billing.budgets.windows import Rolling, Window, period_of
from billing.types import BudgetShare

EACH_USER = "*"
DIGEST_CHARS = 32


@dataclass(frozen=True, slots=True)
class Budget:
    """`owner` is `org:ID`, `project:ID` or `key:ID`. `end_user` is one of the owner's end users, or
    `*` for each of them, or "" for the owner itself."""

    budget_id: str
    org: str
    owner: str
    end_user: str
    name: str
    amount_nanousd: int
    is_hard: bool
    window: Window
    alert_percents: tuple[int, ...]
    created_us: int
    ended_us: int | None = None

    @property
    def scope(self) -> str:
        return scope_of(self.owner, self.end_user)

    @property
    def subject(self) -> str:
        """The digest of the one end user whom the budget binds, else "". A budget for each end user
        has a subject a user, which is not known here."""
        return digest_of(self.end_user) if self.end_user not in ("", EACH_USER) else ""


def scope_of(owner: str, end_user: str) -> str:
    return f"{owner}/user:{end_user}" if end_user else owner


def digest_of(end_user: str) -> str:
    """The digest by which Redis and records know an end user."""
    return sha256(end_user.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


def share_of(budget: Budget, subject: str, admitted_us: int) -> BudgetShare:
    """The share of this budget that a call takes which is admitted at an instant."""
    window = budget.window
    if isinstance(window, Rolling):
        return BudgetShare(
            budget=budget.budget_id,
            subject=subject,
            span_us=window.span_us,
            width_us=window.width_us,
            is_hard=budget.is_hard,
        )
    period = period_of(window, admitted_us)
    return BudgetShare(
        budget=budget.budget_id,
        subject=subject,
        start_us=period.start_us,
        until_us=period.end_us or 0,
        is_hard=budget.is_hard,
    )


def share_in(budget: Budget, subject: str, bucket_us: int, until_us: int) -> BudgetShare:
    """The share that the calls of a bucket took when they were admitted."""
    if isinstance(budget.window, Rolling):
        return share_of(budget, subject, bucket_us)
    return BudgetShare(
        budget=budget.budget_id,
        subject=subject,
        start_us=bucket_us,
        until_us=until_us,
        is_hard=budget.is_hard,
    )


def reached(budget: Budget, spent_nanousd: int) -> list[int]:
    """The percentages that have been spent of the budget. The comparison is exact to the
    nano-dollar, so no percentage comes too early."""
    if spent_nanousd <= 0:
        return []
    return [
        percent
        for percent in budget.alert_percents
        if spent_nanousd * 100 >= percent * budget.amount_nanousd
    ]
