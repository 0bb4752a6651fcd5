"""Charges by month: what a batch of postings adds to the sums that invoices are made of.

Pure. A charge counts in the month in which it was used, spread over the components of its price. A
reversal is no usage, so it counts as an adjustment, below zero. What a grant of credit pays counts
as a credit. The cells are what an invoice line shows, so a line is a cell less what other invoices
have of it. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from billing.credits.credit import grant_of
from billing.invoices.invoicing import LineKind
from billing.ledger.posting import Posting
from billing.periods import period_at
from billing.prices.book import Component, PriceBook, Prices, Unpriced
from billing.prices.rating import CHARGE_PARTS, Unrateable, part_of, units_at
from billing.types import COUNTS, usage_from
from billing.usage.rollup import CountedCall, hour_of

CELL = (
    *("org", "service_start_us", "kind", "project", "model", "tier", "batch", "component"),
    *("price_version", "unit_price_nanousd_per_mtok", "grant_id", "is_simulated"),
)
SUMMED = ("quantity", "amount_nanousd", "transfers")
RECORD = ("project", "model", "tier", "batch", "price_version", "is_simulated")
"""What a line shows of a record."""
SAME = (*RECORD, "unit")
"""Records that have this in common are summed together."""
BY_CALL = (Component.REQUEST, Component.MINIMUM)
"""Counted as one for every call that pays it."""

Cell = tuple[Any, ...]
"""The values of CELL."""
Sums = tuple[int, int, int]
"""The values of SUMMED."""
_record = itemgetter("org", *SAME)
_counts = itemgetter(*COUNTS)
_parts = itemgetter(*CHARGE_PARTS)


def added(
    postings: Iterable[Posting],
    before: Mapping[str, CountedCall],
    burns: Iterable[Mapping[str, Any]],
    book: PriceBook,
) -> dict[Cell, Sums]:
    """What a batch adds, in the order of cells, so that writers lock the cells in one order.
    `before` has the best records of calls that the batch corrects, `burns` the transfers of
    credits. Raises Unrateable if the book does not know a version."""
    former = {rid: call.usage for rid, call in before.items()}
    groups: dict[Cell, list[Mapping[str, Any]]] = {}
    for posting in postings:
        usage = posting.usage
        month_us = month_of(usage["ended_us"])
        undone = former.get(usage["rid"])
        for record, kind in ((undone, LineKind.ADJUSTMENT), (usage, LineKind.USAGE)):
            if record is not None and record["amount_nanousd"]:
                groups.setdefault((month_us, kind.value, *_record(record)), []).append(record)
        former[usage["rid"]] = usage
    cells: dict[Cell, Sums] = {}
    of_records = (cell for group, records in groups.items() for cell in _of(group, records, book))
    for cell, sums in chain(of_records, map(_of_burn, burns)):
        cells[cell] = _plus(cells.get(cell, (0, 0, 0)), sums)
    return {cell: cells[cell] for cell in sorted(cells)}


def month_of(at_us: int) -> int:
    """The first instant of the UTC month that an instant lies in."""
    return _month_of_hour(hour_of(at_us))


@lru_cache(maxsize=4096)
def _month_of_hour(hour_us: int) -> int:
    return period_at(hour_us).start_us


def _of(
    group: Cell, records: Sequence[Mapping[str, Any]], book: PriceBook
) -> Iterator[tuple[Cell, Sums]]:
    month_us, kind, org, project, model, tier, batch, version, is_simulated, unit = group
    sign = -1 if kind == LineKind.ADJUSTMENT else 1
    prices = book.of_version(version, model, tier, bool(batch))
    if isinstance(prices, Unpriced):
        raise Unrateable(f"{model}/{tier}/batch={batch}: {prices.reason}")
    for at, same in _by_step(prices, records):
        for component, unit_price, (quantity, amount, transfers) in _components(at, same, unit):
            of_record = (project, model, tier, bool(batch), str(component), version)
            cell = (org, month_us, kind, *of_record, unit_price, "", bool(is_simulated))
            yield cell, (sign * quantity, sign * amount, transfers)


def _by_step(
    prices: Prices, records: Sequence[Mapping[str, Any]]
) -> Iterable[tuple[Prices, Sequence[Mapping[str, Any]]]]:
    """The records by the prices for the length of their prompts."""
    if not prices.longer:
        return [(prices, records)]
    steps: dict[int, tuple[Prices, list[Mapping[str, Any]]]] = {}
    for record in records:
        at = prices.at_prompt(usage_from(_counts(record)).prompt)
        steps.setdefault(at.prompt_from, (at, []))[1].append(record)
    return steps.values()


def _components(
    at: Prices, records: Sequence[Mapping[str, Any]], unit: str
) -> Iterator[tuple[str, int, Sums]]:
    """(component, unit price, sums) of records that have the same prices and units."""
    usage = usage_from(map(sum, zip(*map(_counts, records), strict=True)), unit)
    gpu_ms = sum(min(record["gpu_ms"], at.gpu_ms_max) for record in records) if at.gpu_ms_max else 0
    parts = dict(zip(CHARGE_PARTS, zip(*map(_parts, records), strict=True), strict=True))
    for component, units, unit_price in units_at(replace(usage, gpu_ms=gpu_ms), at):
        amounts = parts[part_of(component)]
        transfers = len(amounts) - amounts.count(0)
        quantity = transfers if component in BY_CALL else units
        if quantity or transfers:
            yield component, unit_price, (quantity, sum(amounts), transfers)


def _of_burn(transfer: Mapping[str, Any]) -> tuple[Cell, Sums]:
    """An amount that a grant has paid is taken away. An amount that a correction gave back to the
    grant is added again."""
    sign = 1 if transfer["kind"] == "reversal" else -1
    month_us, nothing = month_of(transfer["booked_us"]), ("", "", "", False, "", "", 0)
    cell = (transfer["org"], month_us, LineKind.CREDIT.value, *nothing, grant_of(transfer), False)
    return cell, (0, sign * transfer["amount_nanousd"], 1)


def _plus(one: Sums, other: Sums) -> Sums:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
