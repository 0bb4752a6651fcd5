"""Our side of the ledger: the cost of capacity, whose cost it is, and how much nobody used.

Pure. The cost of a pool's capacity is owed to its provider. It first stands unallocated, by what
the capacity did: starting, idling, or computing (`busy`). The cost of a call moves from `busy` to
the cost of goods. The cost of the call's other attempts moves to `wasted`. So the cost of goods and
the unallocated accounts are the bill at any moment, whatever is missing, late or corrected. An
amount that stays in `busy` is on no call's record, or not yet. A batch moves each account once, not
once a call: the cost of each call stands on its usage, and the sums of both agree.

    the bill of lives and tokens  Dr unallocated:pool:P:{..}    Cr payable:pool:P
    the cost of calls             Dr cogs:pool:P                Cr unallocated:pool:P:busy
    the cost of other attempts    Dr unallocated:pool:P:wasted  Cr unallocated:pool:P:busy
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from billing.costs.attempts import AttemptCost
from billing.costs.lifetimes import Bill, Cell
from billing.ledger.posting import Posting, transfer
from billing.usage.rollup import DAY_US, HOUR_CELL, SUMMED, Added, hour_of

COST, UNALLOCATED = "cost", "unallocated"
SPARES = "spares"
"""The pool of all spares: no pool can be declared by this name."""
_POOL = HOUR_CELL.index("pool")
_COST = SUMMED.index("cost_nanousd")


class CapacitySums(NamedTuple):
    """Sums of a span and a pool; money is nano-USD. `busy_nanousd` is the cost of all that was
    computed. The cost of calls and of wasted attempts are parts of it."""

    cold_start_nanousd: int = 0
    busy_nanousd: int = 0
    idle_nanousd: int = 0
    wasted_nanousd: int = 0
    life_us: int = 0
    cold_start_us: int = 0
    busy_us: int = 0

    @property
    def bill_nanousd(self) -> int:
        return self.cold_start_nanousd + self.busy_nanousd + self.idle_nanousd


Moved = Mapping[Cell, CapacitySums]
"""By cell what is to be added."""


class BoughtCell(NamedTuple):
    """The key by which what attempts bought is summed. `replica` names the server outside, and the
    key of its provider's account where it went with one."""

    day_us: int
    pool: str
    replica: str


class AttemptCosts(NamedTuple):
    """The cost of each attempt of a call so far, and the hour in which the call counts."""

    hour_us: int
    costs: Sequence[AttemptCost]


def of_bills(bills: Mapping[Cell, Bill]) -> dict[Cell, CapacitySums]:
    """The sums that the lives of replicas add."""
    return {
        cell: CapacitySums(
            bill.cold_start_nanousd,
            bill.busy_nanousd,
            bill.idle_nanousd,
            0,
            bill.life_us,
            bill.cold_start_us,
            bill.busy_us,
        )
        for cell, bill in bills.items()
    }


def of_attempts(
    postings: Iterable[Posting], standing: Mapping[str, AttemptCosts]
) -> dict[Cell, CapacitySums]:
    """The sums that the attempts of a batch of calls add. Tokens that were bought are a bill, and
    an attempt that served nobody is wasted. `standing` has what corrected calls counted before."""
    by_cell: dict[Cell, CapacitySums] = {}
    for hour_us, costs, sign in _changes(postings, standing):
        _count(by_cell, hour_us, costs, sign)
    return {cell: sums for cell, sums in by_cell.items() if any(sums)}


def bought_of_attempts(
    postings: Iterable[Posting], standing: Mapping[str, AttemptCosts]
) -> dict[BoughtCell, int]:
    """What the attempts of a batch of calls bought, in nano-USD. Each amount is also a part of
    `busy_nanousd` in the sums of its hour."""
    by_cell: dict[BoughtCell, int] = {}
    for hour_us, costs, sign in _changes(postings, standing):
        for cost in costs:
            if cost.bought_nanousd:
                cell = BoughtCell(hour_us - hour_us % DAY_US, cost.pool, cost.replica)
                by_cell[cell] = by_cell.get(cell, 0) + sign * cost.bought_nanousd
    return {cell: nanousd for cell, nanousd in by_cell.items() if nanousd}


def allocated(hours: Added) -> dict[str, int]:
    """For each pool the change in the cost of its calls. It is read from what a batch adds to the
    sums of usage."""
    changes: dict[str, int] = {}
    for cell, counts in hours.items():
        if cost := counts[_COST]:
            changes[cell[_POOL]] = changes.get(cell[_POOL], 0) + cost
    return changes


def transfers(
    moved: Moved, costs: Mapping[str, int], name: str, now_us: int
) -> list[dict[str, Any]]:
    """One transfer for each two accounts between which money moves. `name` belongs to this batch
    alone."""
    pools: dict[str, CapacitySums] = {}
    for cell, sums in moved.items():
        pools[cell.pool] = plus(pools.get(cell.pool, CapacitySums()), sums)
    return [
        _transfer(f"{debit}:{name}", kind, debit, credit, amount, now_us)
        for pool in sorted({*pools, *costs})
        for kind, debit, credit, amount in _flows(
            pool, pools.get(pool, CapacitySums()), costs.get(pool, 0)
        )
        if amount
    ]


def _flows(pool: str, sums: CapacitySums, cost: int) -> Iterator[tuple[str, str, str, int]]:
    busy = unallocated(pool, "busy")
    yield UNALLOCATED, busy, payable(pool), sums.busy_nanousd
    yield UNALLOCATED, unallocated(pool, "idle"), payable(pool), sums.idle_nanousd
    yield UNALLOCATED, unallocated(pool, "cold_start"), payable(pool), sums.cold_start_nanousd
    yield UNALLOCATED, unallocated(pool, "wasted"), busy, sums.wasted_nanousd
    yield COST, cogs(pool), busy, cost


def _transfer(
    transfer_id: str, kind: str, debit: str, credit: str, amount_nanousd: int, now_us: int
) -> dict[str, Any]:
    """A transfer between two accounts. A negative amount moves the other way."""
    if amount_nanousd < 0:
        debit, credit = credit, debit
    return transfer(
        transfer_id,
        kind,
        debit,
        credit,
        abs(amount_nanousd),
        org="",
        booked_us=now_us,
        created_us=now_us,
    )


def cogs(pool: str) -> str:
    """The account of what calls on a pool cost."""
    return f"cogs:pool:{pool}"


def unallocated(pool: str, part: str) -> str:
    """The account of capacity that nobody used of a pool, by what became of it. Spares only idle,
    and have one account."""
    if pool == SPARES and part == "idle":
        return f"{UNALLOCATED}:{SPARES}"
    return f"unallocated:pool:{pool}:{part}"


def payable(pool: str) -> str:
    """The account of what a pool's capacity costs."""
    return f"payable:pool:{pool}"


def plus(one: CapacitySums, other: CapacitySums) -> CapacitySums:
    return CapacitySums(*(a + b for a, b in zip(one, other, strict=True)))


def _changes(
    postings: Iterable[Posting], standing: Mapping[str, AttemptCosts]
) -> Iterator[tuple[int, Sequence[AttemptCost], int]]:
    """Each call's costs to take out or to put in, with the hour in which the call counts."""
    now = dict(standing)
    for posting in postings:
        rid = posting.usage["rid"]
        before = now.get(rid)
        hour_us = before.hour_us if before else hour_of(posting.usage["ended_us"])
        if before:
            yield hour_us, before.costs, -1
        yield hour_us, posting.costs, 1
        now[rid] = AttemptCosts(hour_us, posting.costs)


def _count(
    by_cell: dict[Cell, CapacitySums], hour_us: int, costs: Iterable[AttemptCost], sign: int
) -> None:
    for cost in costs:
        wasted = 0 if cost.served else cost.nanousd
        if not (wasted or cost.bought_nanousd):
            continue
        cell = Cell(hour_us, cost.pool, cost.model)
        sums = CapacitySums(busy_nanousd=sign * cost.bought_nanousd, wasted_nanousd=sign * wasted)
        by_cell[cell] = plus(by_cell.get(cell, CapacitySums()), sums)
