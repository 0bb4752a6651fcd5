"""Sums of charges: a batch adds what its calls say one by one, in whatever parts it is booked."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from billing.charges.sums import CELL, added, month_of
from billing.ledger import posting
from billing.ledger.posting import LatestRecord, Posting
from billing.periods import period
from billing.prices.book import Component, PriceRate, PriceVersion, make_book
from billing.prices.rating import part_of, units_of
from billing.types import Usage, UsageSource, recorded
from billing.usage.rollup import CountedCall
from tests.billing.calls import opened_call, settled_call

OCTOBER = period("2026-10")
NOW_US = OCTOBER.end_us + 10**12
IMAGES, SQUARES = "image", "image/1024x1024"
PRICES: dict[str, int] = {
    Component.INPUT: 1_000_000,
    Component.CACHED_INPUT: 0,
    Component.OUTPUT: 5_000_003,
    Component.REASONING: 7_000_001,
    Component.REQUEST: 2_000_000,
    Component.MINIMUM: 30_000_000,
    Component.GPU_MS: 500_001,
    Component.AUDIO_INPUT: 2_000_001,
    IMAGES: 9_000_001,
    SQUARES: 8_000_000,
}
RATES = (
    *(
        PriceRate("m", "t", component, price, units_max=40 if component == "gpu_ms" else None)
        for component, price in PRICES.items()
    ),
    PriceRate("m", "t", Component.INPUT, 3_000_000, prompt_from=50),
    *(PriceRate("flat", "t", component, PRICES[component]) for component in ("input", "output")),
)
BOOK = make_book([PriceVersion("pv", 0, None, RATES)])

counts = st.integers(0, 90)
usages = st.builds(
    Usage, input=counts, cached_input=counts, output=counts, cache_write=counts,
    reasoning=counts, gpu_ms=counts, audio_input=counts, image_output=counts,
    units=counts, unit=st.sampled_from((IMAGES, SQUARES)),
)  # fmt: skip
records = st.lists(
    st.tuples(
        st.sampled_from(("a", "b", "c", "d")),
        st.sampled_from(("m", "flat")),
        usages,
        st.sampled_from((OCTOBER.start_us, OCTOBER.end_us - 1, OCTOBER.end_us)),
    ),
    max_size=8,
)
Amounts = Counter[tuple[Any, ...]]


@settings(deadline=None)
@given(records=records, cut=st.integers(0, 8))
def test_batches_add_what_their_records_say_one_by_one(
    records: list[tuple[str, str, Usage, int]], cut: int
) -> None:
    postings = _postings(records)
    whole = _as_amounts(added(postings, {}, [], BOOK))
    best: dict[str, CountedCall] = {}
    in_parts: Amounts = Counter()
    for part in (postings[:cut], postings[cut:]):
        before = {p.usage["rid"]: best[p.usage["rid"]] for p in part if p.usage["rid"] in best}
        in_parts.update(_as_amounts(added(part, before, [], BOOK)))
        best |= {p.usage["rid"]: CountedCall(0, p.usage) for p in part}
    assert {k: v for k, v in whole.items() if v} == {k: v for k, v in in_parts.items() if v}
    assert {k: v for k, v in whole.items() if v} == _one_by_one(postings)
    moved = sum(
        row["amount_nanousd"] * (1 if row["kind"] == "charge" else -1)
        for each in postings
        for row in each.transfers
    )
    assert sum(v for (*_, name), v in whole.items() if name == "amount") == moved


def _postings(records: list[tuple[str, str, Usage, int]]) -> list[Posting]:
    """Records of a call, each better than the one before."""
    latest: dict[str, LatestRecord] = {}
    made = []
    for number, (rid, model, usage, ended_us) in enumerate(records):
        opened = opened_call(
            rid, org="o", model=model, tier="t", price_version="pv", admitted_us=ended_us
        )
        used = recorded(usage)
        call = settled_call(opened, 0, ended_us=ended_us, source=UsageSource.ESTIMATED, **used)
        charge = posting.charge_for(call, BOOK)
        entry = posting.posting(call, bytes([number]), charge, latest.get(rid), NOW_US)
        latest[rid] = entry.record
        made.append(entry)
    return made


def _as_amounts(cells: dict[tuple[Any, ...], tuple[int, int, int]]) -> Amounts:
    sums: Amounts = Counter()
    for cell, values in cells.items():
        for name, value in zip(("quantity", "amount", "transfers"), values, strict=True):
            sums[*cell, name] += value
    return sums


def _one_by_one(postings: list[Posting]) -> dict[tuple[Any, ...], int]:
    sums: Amounts = Counter()
    former: dict[str, dict[str, Any]] = {}
    for each in postings:
        rid = each.usage["rid"]
        if rid in former:
            _count(sums, former[rid], each.usage["ended_us"], "adjustment", -1)
        _count(sums, each.usage, each.usage["ended_us"], "usage", 1)
        former[rid] = each.usage
    return {key: value for key, value in sums.items() if value}


def _count(sums: Amounts, row: dict[str, Any], at_us: int, kind: str, sign: int) -> None:
    if not row["amount_nanousd"]:
        return
    prices = BOOK.of_version("pv", row["model"], "t", False)
    usage = Usage(**{name: row[name] for name in Usage.__struct_fields__})
    for component, units, unit_price in units_of(usage, prices):  # type: ignore[arg-type]
        amount = row[part_of(component)]
        if component in ("request", "minimum") and not amount:
            continue
        shown = {
            **{name: row.get(name, "") for name in CELL},
            **{"service_start_us": month_of(at_us), "kind": kind, "component": str(component)},
            "unit_price_nanousd_per_mtok": unit_price,
        }
        cell = tuple(shown[name] for name in CELL)
        sums[*cell, "quantity"] += sign * units
        sums[*cell, "amount"] += sign * amount
        sums[*cell, "transfers"] += bool(amount)
