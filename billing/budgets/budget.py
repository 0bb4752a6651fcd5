"""What a budget is, whom it binds, and where in it a call counts. Pure.

Hard: calls stop before it is overspent. Soft: it is only watched. A calendar counts a call in the
period in which it was admitted; a rolling span in the part in which it ended, so that what ended
within any span of that length never exceeds a hard one.
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
    """`owner` is `org:ID`, `project:ID` or `key:ID`; `end_user` one of its end users, `*` each of
    them, or "" where it is the owner's own."""

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
        return f"{self.owner}/user:{self.end_user}" if self.end_user else self.owner

    @property
    def subject(self) -> str:
        """What its spending stands under; of one for each end user, that depends on the user."""
        return digest_of(self.end_user) if self.end_user not in ("", EACH_USER) else ""


def digest_of(end_user: str) -> str:
    """How Redis and records know an end user."""
    return sha256(end_user.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


def share_of(budget: Budget, subject: str, admitted_us: int) -> BudgetShare:
    """Where a call that is admitted at an instant counts."""
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
    """The share of the calls of a bucket, as they were admitted."""
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
    """The percentages of the budget that have been spent, to the nano-dollar: none too early."""
    if spent_nanousd <= 0:
        return []
    return [
        percent
        for percent in budget.alert_percents
        if spent_nanousd * 100 >= percent * budget.amount_nanousd
    ]
