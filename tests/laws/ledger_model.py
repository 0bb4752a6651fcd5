"""What a ledger must say, told by dictionaries and fractions: a model that knows no row and no
statement of the product, and none of its functions.

Records are heard in the order in which they are booked. Of each call the best one counts; grants
pay in their order; a budget sums what its calls cost; an invoice takes what is unbilled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

HOUR_US = 3_600_000_000
PRICED = ("input", "cached_input", "output")


@dataclass(frozen=True)
class Said:
    """One record of how a call ended."""

    rid: str
    org: str
    model: str
    version: str
    exact: bool
    tokens: tuple[int, int, int]
    admitted_us: int
    ended_us: int
    served_nanousd: int
    wasted_nanousd: int
    budget: str | None

    @property
    def total(self) -> int:
        return sum(self.tokens)


@dataclass(frozen=True)
class Given:
    """One grant; `ends_us` is the sooner of its expiry and its voiding."""

    name: str
    org: str
    paid: bool
    amount: int
    priority: int
    from_us: int
    expires_us: int | None
    models: tuple[str, ...]
    created_us: int

    @property
    def order(self) -> tuple[object, ...]:
        expires = inf if self.expires_us is None else self.expires_us
        return self.priority, expires, self.paid, self.created_us, self.name


@dataclass
class Model:
    prices: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Nano-USD per million, by version, model and component."""
    best: dict[str, Said] = field(default_factory=dict)
    first_us: dict[str, int] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    conflicts: int = 0
    grants: dict[str, Given] = field(default_factory=dict)
    voided_us: dict[str, int] = field(default_factory=dict)
    left: Counter[str] = field(default_factory=Counter)
    burned: dict[str, Counter[str]] = field(default_factory=dict)

    def hear_opened(self, rid: str) -> None:
        self.opened.add(rid)

    def hear(self, said: Said) -> None:
        """Exact beats estimated, and of two estimates the larger one holds."""
        known = self.best.get(said.rid)
        if known is None:
            self.first_us[said.rid] = said.ended_us
        elif known.exact or (not said.exact and said.total <= known.total):
            self.conflicts += said.exact and known.exact and said != known
            return
        elif known == said:
            return
        self.best[said.rid] = said
        self._pay(said)

    def cost(self, said: Said) -> int:
        """Each component rounded once, half to even; the fee for whoever used anything."""
        if not said.total:
            return 0
        units = [*zip(PRICED, said.tokens, strict=True), ("request", 1)]
        return sum(
            round(Fraction(count * self.prices[said.version, said.model, name], 1_000_000))
            for name, count in units
        )

    def _pay(self, said: Said) -> None:
        for name, amount in self.burned.pop(said.rid, Counter()).items():
            self.left[name] += amount
        owed, paid = self.cost(said), Counter[str]()
        for grant in sorted(self.grants.values(), key=lambda grant: grant.order):  # type: ignore[arg-type,return-value]
            part = min(owed, self.left[grant.name])
            if part > 0 and self._may_pay(grant, said):
                paid[grant.name] += part
                self.left[grant.name] -= part
                owed -= part
        self.burned[said.rid] = paid

    def _may_pay(self, grant: Given, said: Said) -> bool:
        ends_us = self.ends_us(grant)
        return (
            grant.org == said.org
            and grant.from_us <= said.admitted_us < ends_us
            and (not grant.models or said.model in grant.models)
        )

    def ends_us(self, grant: Given) -> float:
        expires = inf if grant.expires_us is None else grant.expires_us
        return min(expires, self.voided_us.get(grant.name, inf))

    # --- sums ------------------------------------------------------------------------------------

    def charged(self, org: str) -> int:
        return sum(self.cost(said) for said in self.best.values() if said.org == org)

    def burned_of(self, org: str) -> int:
        return sum(
            sum(self.burned.get(said.rid, Counter()).values())
            for said in self.best.values()
            if said.org == org
        )

    def counted(self, budget: str) -> int:
        return sum(self.cost(said) for said in self.best.values() if said.budget == budget)

    @property
    def still_open(self) -> set[str]:
        return self.opened - self.best.keys()
