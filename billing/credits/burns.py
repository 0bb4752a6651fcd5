"""What a batch of postings takes from credits: transfers beside the charges.

Pure. A charge stays what it is. The part that grants pay moves from their accounts to what is
unbilled. A better record of a call gives back what its former record took, by linked reversals, and
takes anew. Every movement of an organization's credits has an instant of its own, later than all
before. So the rows tell their order, and `verify` can repeat it. Guards laws 4 and 20.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from billing.credits.credit import Burn, Grant, GrantBalance, Standing, account_of, split
from billing.credits.watch import left_in_force
from billing.ledger.posting import Posting, transfer, unbilled

Before = dict[tuple[str, int], list[Burn]]
"""By request id and record what grants have paid of its charge."""


class OrganizationCredits:
    """The credits of one organization while a batch is booked."""

    def __init__(self, org: str, standing: Standing, held: Iterable[GrantBalance]) -> None:
        self.org = org
        self.standing = standing
        self._grants: dict[str, Grant] = {}
        self._left: dict[str, int] = {}
        for grant, left_nanousd in held:
            self._grants[grant.grant_id] = grant
            self._left[grant.grant_id] = left_nanousd

    def left_in_force(self, at_us: int) -> int:
        """The nano-USD that grants in force have left at an instant."""
        held = (
            GrantBalance(grant, self._left[grant_id]) for grant_id, grant in self._grants.items()
        )
        return left_in_force(held, at_us)

    def pay(self, posting: Posting, before: Before, now_us: int) -> list[dict[str, Any]]:
        """The transfers of one posting. `before` has the burns of the posting's former record, and
        gets those of this one."""
        usage = posting.usage
        rid = usage["rid"]
        undone = before.get((rid, posting.n - 1), [])
        for burn in undone:
            self._left[burn.grant_id] += burn.amount_nanousd
        burns = split(
            usage["amount_nanousd"],
            self._grants.values(),
            self._left,
            model=usage["model"],
            admitted_us=usage["admitted_us"],
        )
        if not undone and not burns:
            return []
        for burn in burns:
            self._left[burn.grant_id] -= burn.amount_nanousd
        before[rid, posting.n] = burns
        self.standing = moved(self.standing, _sum(burns) - _sum(undone), now_us)
        return self._rows(posting, undone, burns)

    def _rows(
        self, posting: Posting, undone: Sequence[Burn], burns: Sequence[Burn]
    ) -> list[dict[str, Any]]:
        rid, debt = posting.usage["rid"], unbilled(self.org)
        common = {
            "org": self.org,
            "rid": rid,
            "booked_us": posting.usage["ended_us"],
            "created_us": self.standing.moved_us,
        }
        back = [
            transfer(
                f"{rid}:unburn:{posting.n - 1}:{grant_id}",
                "reversal",
                debt,
                account_of(self.org, grant_id),
                amount_nanousd,
                **{**common, "reverses_id": burn_id(rid, posting.n - 1, grant_id)},
            )
            for grant_id, amount_nanousd in undone
        ]
        paid = [
            transfer(
                burn_id(rid, posting.n, grant_id),
                "burn",
                account_of(self.org, grant_id),
                debt,
                amount_nanousd,
                **common,
            )
            for grant_id, amount_nanousd in burns
        ]
        return back + paid


def burn(
    postings: Iterable[Posting],
    purses: Mapping[str, OrganizationCredits],
    before: Before,
    now_us: int,
) -> list[dict[str, Any]]:
    """The transfers of a batch, in its order. An organization without a purse has no credits."""
    return [
        row
        for posting in postings
        if (purse := purses.get(posting.usage["org"])) is not None
        for row in purse.pay(posting, before, now_us)
    ]


def moved(standing: Standing, cleared_nanousd: int, now_us: int) -> Standing:
    """The standing after one more movement. Its instant is later than that of any movement
    before."""
    at_us = max(now_us, standing.moved_us + 1)
    return Standing(standing.cleared_nanousd + cleared_nanousd, at_us)


def burn_id(rid: str, n: int, grant_id: str) -> str:
    return f"{rid}:burn:{n}:{grant_id}"


def _sum(burns: Iterable[Burn]) -> int:
    return sum(burn.amount_nanousd for burn in burns)
