"""Laws of the cost of goods: what is allocated and what is not are the bill, to the nano-dollar,
whatever is repeated, late, lost, corrected or killed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.costs import store as cost_rows
from billing.costs.attempts import cost_nanousd, costs_of
from billing.costs.life_writer import LifeEntry, book_lives
from billing.costs.lifetimes import Bill, LifeReport, added, bills, stretch
from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.posting import charge_for
from billing.prices.book import Component, PriceRate, PriceVersion, make_book
from billing.prices.versions import load_book
from billing.queries import accounts, call_by_rid
from billing.types import Attempt, SettledCall, UsageSource, encode
from billing.verify import verify
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.laws.examples import examples
from tests.laws.ledgers import fresh, priced
from workers.engines.sharing import shares_us

NOW_US = ADMITTED_US + 10**10
LAW = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
RATES = [
    PriceRate(model="tale-large", tier="default", component=part, nanousd_per_mtok=777_777)
    for part in (Component.INPUT, Component.OUTPUT)
]
BOOK = make_book([PriceVersion("pv_1", 1, None, tuple(RATES))])
prices = st.integers(0, 10**9)


# --- lives ----------------------------------------------------------------------------------------


@st.composite
def lives(draw: st.DrawFn, replica: str = "r", *, one_price: bool = False) -> list[LifeReport]:
    """What is reported of a life, in its order."""
    started_us = ADMITTED_US + draw(st.integers(0, 10**9))
    ready_us = started_us + draw(st.integers(0, 10**8))
    instants = sorted(
        draw(st.sets(st.integers(started_us, started_us + 10**10), min_size=1, max_size=6))
    )
    pool = draw(st.sampled_from(["large-reserved", "large-spot"]))
    price = draw(prices)
    busy_us, reports = 0, []
    for until_us in instants:
        busy_us += draw(st.integers(0, 10**9))
        reports.append(
            LifeReport(
                replica=replica,
                pool=pool,
                model="tale-large",
                nanousd_per_s=price if one_price else draw(prices),
                started_us=started_us,
                ready_us=ready_us if until_us >= ready_us else None,
                until_us=until_us,
                busy_us=min(busy_us, max(0, until_us - ready_us)),
                ended=until_us == instants[-1],
            )
        )
    return reports


def whole(found: dict[Any, Bill]) -> Bill:
    total = Bill()
    for bill in found.values():
        total = total.plus(bill)
    return total


@given(life=lives(one_price=True))
def test_a_life_at_one_price_costs_its_length_wherever_it_is_reported(
    life: list[LifeReport],
) -> None:
    total = whole(bills(life))
    last = life[-1]
    length_us = last.until_us - last.started_us
    assert total.life_us == length_us
    assert abs(total.nanousd * 10**6 - length_us * last.nanousd_per_s) < 10**6
    assert total.idle_nanousd >= -1 and total.busy_nanousd >= 0 and total.cold_start_nanousd >= 0


@given(life=lives(), data=st.data())
def test_the_bill_is_that_of_the_set_of_reports_in_any_order_and_number(
    life: list[LifeReport], data: st.DataObject
) -> None:
    deliveries = data.draw(st.permutations(life + data.draw(st.lists(st.sampled_from(life)))))
    known: list[LifeReport] = []
    total: dict[Any, Bill] = {}
    while deliveries:
        size = data.draw(st.integers(1, len(deliveries)))
        batch, deliveries = deliveries[:size], deliveries[size:]
        from_us = min(report.until_us for report in batch)
        before = [report for report in known if report.until_us < from_us][-1:]
        around = before + [report for report in known if report.until_us >= from_us]
        fresh, changed = added(around, batch)
        known = sorted([*known, *fresh], key=lambda report: report.until_us)
        for cell, bill in changed.items():
            total[cell] = total.get(cell, Bill()).plus(bill)
    assert known == life
    assert {cell: bill for cell, bill in total.items() if any(bill)} == {
        cell: bill for cell, bill in bills(life).items() if any(bill)
    }


@given(life=lives(one_price=True), data=st.data())
def test_a_lost_report_loses_no_second_of_the_life(
    life: list[LifeReport], data: st.DataObject
) -> None:
    """A controller that was killed, a stream that was wiped: the next report says all."""
    kept = [report for report in life[:-1] if data.draw(st.booleans())] + [life[-1]]
    assert whole(bills(kept)).life_us == whole(bills(life)).life_us
    assert whole(bills(kept)).nanousd == whole(bills(life)).nanousd


# --- calls and lives in one ledger ----------------------------------------------------------------


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with priced(RATES) as path:
        yield path


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    pool = draw(st.sampled_from(["large-reserved", "large-spot", "outside"]))
    tokens = {name: draw(st.integers(0, 300)) for name in ("input", "cached_input", "output")}
    priced: dict[str, Any] = (
        {
            "input_nanousd_per_mtok": draw(prices),
            "output_nanousd_per_mtok": draw(prices),
            "cached_input_nanousd_per_mtok": draw(st.none() | prices),
        }
        if pool == "outside"
        else {"busy_us": draw(st.integers(0, 10**7)), "nanousd_per_s": draw(prices)}
    )
    return Attempt(
        pool=pool,
        replica=draw(st.sampled_from(["a", "b"])),
        started_us=ADMITTED_US,
        ended_us=ADMITTED_US + 10**7,
        outcome=draw(st.sampled_from(["answered", "cut", "cancelled"])),
        model=draw(st.sampled_from(["tale-large", "tale-small"])),
        **tokens,
        **priced,
    )


@st.composite
def records(draw: st.DrawFn, rid: str, source: UsageSource, scale: int) -> SettledCall:
    tried = draw(st.lists(attempts(), max_size=3))
    is_charged = draw(st.booleans()) and tried
    last = tried[-1] if tried else None
    used = {
        name: (getattr(last, name) + scale if is_charged and last else 0)
        for name in ("input", "cached_input", "output")
    }
    call = settled_call(
        opened_call(rid, org=f"org_{draw(st.integers(0, 1))}"),
        0,
        source=source,
        attempts=tried,
        pool=last.pool if last else "",
        ended_us=ADMITTED_US + draw(st.sampled_from([2, 3_600_000_000])),
        **used,
    )
    return msgspec.structs.replace(call, amount_nanousd=amount(call))


def amount(call: SettledCall) -> int:
    return charge_for(call, BOOK).amount_nanousd


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[SettledCall | LifeReport], dict[str, SettledCall]]:
    """Deliveries of calls and lives, duplicated and shuffled, and what each call must end with."""
    deliveries: list[SettledCall | LifeReport] = []
    best: dict[str, SettledCall] = {}
    for number in range(draw(st.integers(1, 4))):
        rid = f"req_{number}"
        org = draw(st.sampled_from(["org_0", "org_1"]))
        found = [
            msgspec.structs.replace(draw(records(rid, UsageSource.ESTIMATED, scale)), org=org)
            for scale in range(draw(st.integers(0, 2)))
        ]
        if not found or draw(st.booleans()):
            found.append(msgspec.structs.replace(draw(records(rid, UsageSource.EXACT, 5)), org=org))
        deliveries += found
        best[rid] = found[-1]
    for number in range(draw(st.integers(0, 2))):
        deliveries += draw(lives(f"r{number}"))
    repeated = draw(st.lists(st.sampled_from(deliveries), max_size=8))
    return draw(st.permutations(deliveries + repeated)), best


def deliver(store: Store, deliveries: list[SettledCall | LifeReport], cuts: list[int]) -> None:
    """In batches of drawn sizes, each kind its own transaction, as two writers would."""
    book = load_book(store)
    place = itertools.count()
    while deliveries:
        size = cuts.pop() if cuts else len(deliveries)
        batch, deliveries = deliveries[:size], deliveries[size:]
        calls = [
            Record(0, f"1-{next(place)}", "settled", call.rid, encode(call))
            for call in batch
            if isinstance(call, SettledCall)
        ]
        told = [
            LifeEntry(f"1-{next(place)}", msgspec.json.encode(report))
            for report in batch
            if isinstance(report, LifeReport)
        ]
        with store.write() as conn:
            assert not booking.book(conn, booking.read(calls, book, NOW_US)).failures
        with store.write() as conn:
            book_lives(conn, told, NOW_US)


def balances(store: Store) -> dict[str, int]:
    return {row["code"]: row["debits"] - row["credits"] for row in accounts(store)}


def best_on_record(store: Store, rid: str, candidates: list[SettledCall]) -> SettledCall:
    found = call_by_rid(store, rid)
    assert found is not None
    return next(
        call
        for call in candidates
        if call.amount_nanousd == found.usage.amount_nanousd
        and call.source == found.usage.source
        and [a.busy_us for a in call.attempts] == [a["busy_us"] for a in found.attempts]
        and [a.output for a in call.attempts] == [a["output"] for a in found.attempts]
        and [a.replica for a in call.attempts] == [a["replica"] for a in found.attempts]
    )


@LAW
@given(history=histories(), cuts=st.lists(st.integers(1, 5), max_size=8))
def test_allocated_and_unallocated_are_the_bill_in_any_order(
    template: Path,
    history: tuple[list[SettledCall | LifeReport], dict[str, SettledCall]],
    cuts: list[int],
) -> None:
    deliveries, best = history
    told = {
        (report.replica, report.until_us): report
        for report in deliveries
        if isinstance(report, LifeReport)
    }
    with fresh(template) as store:
        deliver(store, list(deliveries), list(cuts))
        found = balances(store)
        final = {
            rid: best_on_record(
                store,
                rid,
                [c for c in deliveries if isinstance(c, SettledCall) and c.rid == rid],
            )
            for rid in best
        }
        spent = [cost for call in final.values() for cost in costs_of(call)]
        with store.read() as conn:
            with_keys = cost_rows.bought(conn, 0, 2 * NOW_US)
        for pool in ("large-reserved", "large-spot", "outside"):
            parts = {
                part: found.get(f"unallocated:pool:{pool}:{part}", 0)
                for part in ("cold_start", "idle", "busy", "wasted")
            }
            cogs = found.get(f"cogs:pool:{pool}", 0)
            bill = -found.get(f"payable:pool:{pool}", 0)
            assert cogs + sum(parts.values()) == bill
            assert cogs == sum(c.nanousd for c in spent if c.served and c.pool == pool)
            assert parts["wasted"] == sum(
                c.nanousd for c in spent if not c.served and c.pool == pool
            )
            by_replica = itertools.groupby(sorted(told), key=lambda key: key[0])
            lived = [whole(bills([told[key] for key in keys])) for _, keys in by_replica]
            pools = {r.replica: r.pool for r in told.values()}
            mine = [
                life
                for (replica, life) in zip(sorted(pools), lived, strict=True)
                if pools[replica] == pool
            ]
            bought = sum(c.bought_nanousd for c in spent if c.pool == pool)
            assert bill == sum(life.nanousd for life in mine) + bought
            assert bought == sum(amount for (name, _), amount in with_keys.items() if name == pool)
        for key in ("a", "b"):
            bought = sum(c.bought_nanousd for c in spent if c.replica == key)
            assert with_keys.get(("outside", key), 0) == bought
        report = verify(store, now_us=NOW_US)
        assert report.ok, report.as_text()


@LAW
@given(history=histories(), cuts=st.lists(st.integers(1, 5), max_size=8))
def test_replaying_every_call_and_life_changes_no_account(
    template: Path,
    history: tuple[list[SettledCall | LifeReport], dict[str, SettledCall]],
    cuts: list[int],
) -> None:
    deliveries, _ = history
    with fresh(template) as store:
        deliver(store, list(deliveries), list(cuts))
        before = accounts(store)
        with store.read() as conn:
            sums = cost_rows.capacity(conn, 0, 2 * NOW_US, ("hour_us", "pool", "model"))
        deliver(store, list(deliveries), [2, 3])
        assert accounts(store) == before
        with store.read() as conn:
            again = cost_rows.capacity(conn, 0, 2 * NOW_US, ("hour_us", "pool", "model"))
        assert again == sums


# --- shares ---------------------------------------------------------------------------------------


@given(
    passes=st.lists(
        st.tuples(st.integers(0, 10**6), st.lists(st.integers(1, 512), min_size=1, max_size=8)),
        min_size=1,
        max_size=12,
    ),
    price=prices,
    heard=st.data(),
)
def test_what_calls_cost_never_exceeds_what_their_replica_did(
    passes: list[tuple[int, list[int]]], price: int, heard: st.DataObject
) -> None:
    """Whatever part of its share a gateway heard of before it, or the worker, was killed."""
    share_us: dict[int, int] = {}
    for elapsed_us, tokens in passes:
        for sequence, share in enumerate(shares_us(elapsed_us, tokens)):
            share_us[sequence] = share_us.get(sequence, 0) + share
    computed_us = sum(elapsed_us for elapsed_us, _ in passes)
    life = LifeReport(
        replica="r",
        pool="p",
        model="m",
        nanousd_per_s=price,
        started_us=0,
        ready_us=0,
        until_us=computed_us,
        busy_us=computed_us,
    )
    told = [heard.draw(st.integers(0, share)) for share in share_us.values()]
    costs = [
        cost_nanousd(
            Attempt(
                pool="p",
                replica="r",
                started_us=0,
                ended_us=1,
                outcome="cut",
                busy_us=busy_us,
                nanousd_per_s=price,
            )
        )
        for busy_us in told
    ]
    assert sum(costs) <= stretch(None, life).busy_nanousd
