"""Credits: which grant pays for how much of a charge, and how much may ever be spent.

Pure. A grant is money that an organization may use up. It is paid or promotional, for all models or
some, from an instant and perhaps until another. The grants in force when a call was admitted pay
for it, in one total order. So a hold that was made against them is honoured however late the call
ends. The part that no grant pays stays owed. Guards law 20: no grant pays more than it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any, NamedTuple

import msgspec

PRIORITY_MAX = 100
PRIORITY = 50
"""Of a grant that says none; lower ones pay first."""


class Category(StrEnum):
    PAID = "paid"
    PROMOTIONAL = "promotional"


class GrantStatus(StrEnum):
    SCHEDULED = "scheduled"
    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    VOIDED = "voided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An empty `models` means all models. A grant pays for calls that are admitted from
    `effective_us` until it expires or is voided."""

    grant_id: str
    org: str
    category: Category
    amount_nanousd: int
    effective_us: int
    created_us: int
    priority: int = PRIORITY
    expires_us: int | None = None
    voided_us: int | None = None
    models: tuple[str, ...] = ()

    @property
    def ends_us(self) -> int | None:
        ends = [us for us in (self.expires_us, self.voided_us) if us is not None]
        return min(ends, default=None)

    @property
    def is_void(self) -> bool:
        """Whether the grant was voided before it would have expired."""
        return self.voided_us is not None and self.voided_us == self.ends_us

    def status(self, left_nanousd: int, at_us: int) -> GrantStatus:
        if self.ends_us is not None and self.ends_us <= at_us:
            return GrantStatus.VOIDED if self.is_void else GrantStatus.EXPIRED
        if at_us < self.effective_us:
            return GrantStatus.SCHEDULED
        return GrantStatus.ACTIVE if left_nanousd else GrantStatus.USED_UP

    def is_in_force(self, at_us: int) -> bool:
        return _is_within(self.effective_us, self.ends_us, at_us)

    def pays_for(self, model: str, admitted_us: int) -> bool:
        return self.is_in_force(admitted_us) and (not self.models or model in self.models)


class Burn(NamedTuple):
    """What one grant pays of a charge."""

    grant_id: str
    amount_nanousd: int


class GrantBalance(NamedTuple):
    """A grant and what its account has left."""

    grant: Grant
    left_nanousd: int


class Standing(NamedTuple):
    """The standing of an organization: what it ever spent less what it owes, before invoices round
    to cents, and when its credits last moved."""

    cleared_nanousd: int
    moved_us: int


def account_of(org: str, grant_id: str) -> str:
    """The account that holds what is left of a grant."""
    return f"org:{org}:grant:{grant_id}"


def grant_of(transfer: Mapping[str, Any]) -> str:
    """The grant that a transfer moves money from or back to, or ""."""
    prefix = account_of(transfer["org"], "")
    for name in ("debit_account", "credit_account"):
        account: str = transfer[name]
        if account.startswith(prefix):
            return account.removeprefix(prefix)
    return ""


def rank(grant: Grant) -> tuple[int, float, bool, int, str]:
    """The order in which grants burn: by priority, then by expiry, promotional before paid, then by
    age, then by id."""
    return (
        grant.priority,
        inf if grant.expires_us is None else grant.expires_us,
        grant.category is Category.PAID,
        grant.created_us,
        grant.grant_id,
    )


def split(
    amount_nanousd: int,
    grants: Iterable[Grant],
    rests: Mapping[str, int],
    *,
    model: str,
    admitted_us: int,
) -> list[Burn]:
    """What each grant pays of a charge, given what each has left. The rest is owed."""
    burns = []
    for grant in sorted(grants, key=rank):
        paid = min(amount_nanousd, rests.get(grant.grant_id, 0))
        if paid > 0 and grant.pays_for(model, admitted_us):
            burns.append(Burn(grant.grant_id, paid))
            amount_nanousd -= paid
    return burns


class SpendableGrant(msgspec.Struct, frozen=True, array_like=True):
    """A grant as it bounds spending: its time, its models, and what it has left."""

    from_us: int
    ends_us: int | None
    models: tuple[str, ...]
    left_nanousd: int

    def is_in_force(self, at_us: int) -> bool:
        return _is_within(self.from_us, self.ends_us, at_us)


class CreditLine(msgspec.Struct, frozen=True):
    """The standing of an organization with the grants that bound its spending. Of two lines the one
    with the later `moved_us` counts.

    `cleared_nanousd` is what the organization ever spent less what it owes.
    """

    org: str
    moved_us: int = 0
    cleared_nanousd: int = 0
    grants: Sequence[SpendableGrant] = ()

    def ceiling(self, models: Iterable[str], at_us: int, credit_limit_nanousd: int) -> int:
        """The most that the organization may ever spend, for a call that is admitted at an instant
        and may end on any of `models`.

        It is the cleared amount, what grants in force have left, and what may be owed. Usage does
        not move it. A burn takes from a grant what it adds to the cleared amount. An amount that no
        grant pays adds to both spent and owed. So an old line is as good as a new one, but for
        grants of single models and grants that have ended. For those an old line is too low.
        """
        usable = [grant for grant in self.grants if grant.is_in_force(at_us)]
        of_all = sum([grant.left_nanousd for grant in usable if not grant.models])
        of_some = [grant for grant in usable if grant.models]
        if of_some:
            of_all += min(
                sum([grant.left_nanousd for grant in of_some if model in grant.models])
                for model in models
            )
        return self.cleared_nanousd + of_all + credit_limit_nanousd


def _is_within(from_us: int, ends_us: int | None, at_us: int) -> bool:
    return from_us <= at_us and (ends_us is None or at_us < ends_us)
