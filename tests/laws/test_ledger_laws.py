"""Laws of the ledger: however records arrive, the money of a call is that of its best record."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.prices.book import Component, PriceRate, Prices, PriceVersion, Unpriced, make_book
from billing.prices.rating import hold_for, rate, rate_frozen
from billing.prices.versions import load_book
from billing.queries import GroupBy, call_by_rid, spent_by_scopes, summed, usage_summary
from billing.recovery import holds
from billing.types import CallStatus, OpenedCall, SettledCall, Usage, UsageSource, encode
from billing.usage.rollup import DAY_US, HOUR_US
from billing.verify import verify
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.laws.examples import examples
from tests.laws.ledgers import fresh, priced

RATES = [
    PriceRate(model="tale-large", tier="default", component=component, nanousd_per_mtok=price)
    for component, price in (
        (Component.INPUT, 333_333),
        (Component.CACHED_INPUT, 77_777),
        (Component.OUTPUT, 1_500_001),
        (Component.REQUEST, 10_500_000),
    )
]
BOOK = make_book([PriceVersion("pv_1", 1, None, tuple(RATES))])
NOW_US = ADMITTED_US + 3 * HOUR_US
FIRST_DAY_US = ADMITTED_US - ADMITTED_US % DAY_US
LAW = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

tokens = st.integers(0, 400)
usages = st.builds(Usage, input=tokens, cached_input=tokens, output=tokens)
prices = st.integers(0, 10**13) | st.integers(0, 3_000_000)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with priced(RATES) as path:
        yield path


ends = st.builds(
    dict,
    status=st.sampled_from(CallStatus),
    pool=st.sampled_from(["large-reserved", "large-spot"]),
    ended_us=st.sampled_from([ADMITTED_US + 2, ADMITTED_US + HOUR_US, ADMITTED_US + 2 * HOUR_US]),
)


def ended(
    rid: str, usage: Usage, source: UsageSource, org: str, how: dict[str, Any]
) -> SettledCall:
    call = settled_call(
        opened_call(rid, org=org),
        0,
        source=source,
        **how,
        input=usage.input,
        cached_input=usage.cached_input,
        output=usage.output,
    )
    return msgspec.structs.replace(call, amount_nanousd=amount(call))


def amount(call: SettledCall) -> int:
    return rate_frozen(
        BOOK,
        model=call.model,
        tier=call.tier,
        batch=call.batch,
        usage=call.usage,
        price_version=call.price_version,
    ).amount_nanousd


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[OpenedCall | SettledCall], dict[str, SettledCall]]:
    """Deliveries of a few calls, duplicated and shuffled, and the record each must end with."""
    deliveries: list[OpenedCall | SettledCall] = []
    best: dict[str, SettledCall] = {}
    for number in range(draw(st.integers(1, 5))):
        rid, org = f"req_{number}", f"org_{number % 2}"
        estimates = [
            ended(rid, usage, UsageSource.ESTIMATED, org, draw(ends))
            for usage in draw(st.lists(usages, max_size=2, unique_by=lambda u: u.total))
        ]
        exact = [
            ended(rid, usage, UsageSource.EXACT, org, draw(ends))
            for usage in draw(st.lists(usages, min_size=0 if estimates else 1, max_size=1))
        ]
        best[rid] = exact[0] if exact else max(estimates, key=lambda call: call.usage.total)
        deliveries += [opened_call(rid, org=org), *estimates, *exact]
    repeated = draw(st.lists(st.sampled_from(deliveries), max_size=10))
    return draw(st.permutations(deliveries + repeated)), best


def deliver(store: Store, deliveries: list[OpenedCall | SettledCall], cuts: list[int]) -> None:
    """In batches of drawn sizes, each its own transaction."""
    records = [
        Record(
            0,
            f"1-{place}",
            "settled" if isinstance(call, SettledCall) else "reserved",
            call.rid,
            encode(call),
        )
        for place, call in enumerate(deliveries)
    ]
    book = load_book(store)
    while records:
        size = cuts.pop() if cuts else len(records)
        with store.write() as conn:
            booked = booking.book(conn, booking.read(records[:size], book, NOW_US))
        assert not booked.failures
        records = records[size:]


@LAW
@given(life=lives(), cuts=st.lists(st.integers(1, 6), max_size=8))
def test_any_delivery_leaves_one_event_and_the_net_of_the_best_record(
    template: Path,
    life: tuple[list[OpenedCall | SettledCall], dict[str, SettledCall]],
    cuts: list[int],
) -> None:
    deliveries, best = life
    with fresh(template) as store:
        deliver(store, deliveries, list(cuts))
        report = verify(store, now_us=NOW_US)
        assert report.ok, report.as_text()
        for rid, call in best.items():
            found = call_by_rid(store, rid)
            assert found is not None
            assert found.usage.source == call.source
            assert found.usage.amount_nanousd == call.amount_nanousd
            net = sum(
                t["amount_nanousd"] * (1 if t["kind"] == "charge" else -1) for t in found.transfers
            )
            assert net == call.amount_nanousd
        with store.read() as conn:
            assert holds.admitted_before(conn, ADMITTED_US + 10, 10) == []
        (total,) = usage_summary(store, None, 0, 2 * ADMITTED_US)
        assert total.requests == len(best)
        assert total.amount_nanousd == sum(call.amount_nanousd for call in best.values())
        spent = spent_by_scopes(store)
        by_org = sum(s.total_nanousd for scope, s in spent.items() if scope.startswith("org:"))
        assert by_org == total.amount_nanousd


ENDS_US = sorted(
    {
        FIRST_DAY_US + part
        for part in (0, 1, HOUR_US - 1, HOUR_US, HOUR_US + 1, DAY_US - HOUR_US, DAY_US, DAY_US + 7)
    }
    | {NOW_US, ADMITTED_US + 3}
)
SPANS = list(itertools.combinations(ENDS_US, 2))


@LAW
@given(
    life=lives(),
    cuts=st.lists(st.integers(1, 6), max_size=8),
    spans=st.sets(st.sampled_from(SPANS), min_size=1, max_size=9),
)
def test_hours_and_days_sum_the_best_records_of_the_calls_that_first_ended_in_them(
    template: Path,
    life: tuple[list[OpenedCall | SettledCall], dict[str, SettledCall]],
    cuts: list[int],
    spans: set[tuple[int, int]],
) -> None:
    deliveries, best = life
    first: dict[str, int] = {}
    for call in deliveries:
        if isinstance(call, SettledCall):
            first.setdefault(call.rid, call.ended_us)
    by = [GroupBy.HOUR, GroupBy.ORG, GroupBy.POOL, GroupBy.STATUS]
    expected: dict[tuple[object, ...], list[int]] = {}
    for rid, call in best.items():
        hour_us = first[rid] - first[rid] % HOUR_US
        sums = expected.setdefault((hour_us, call.org, call.pool, call.status.value), [0] * 5)
        record = (1, call.input, call.cached_input, call.output, call.amount_nanousd)
        sums[:] = [a + b for a, b in zip(sums, record, strict=True)]
    with fresh(template) as store:
        for _ in range(2):  # everything is delivered once more
            deliver(store, deliveries, list(cuts))
            found = usage_summary(store, None, 0, NOW_US - NOW_US % HOUR_US + HOUR_US, by)
            assert {
                tuple(row.group[name] for name in by): [
                    row.requests,
                    row.input,
                    row.cached_input,
                    row.output,
                    row.amount_nanousd,
                ]
                for row in found
            } == expected
            assert all(
                row.amount_nanousd
                == row.input_nanousd
                + row.cached_input_nanousd
                + row.output_nanousd
                + row.request_nanousd
                for row in found
            )
        for from_us, to_us in spans:  # wherever one is cut, it sums what its parts sum
            wanted = [GroupBy.ORG, GroupBy.POOL]
            (by_hours, by_days) = (
                summed(usage_summary(store, None, from_us, to_us, groups), wanted)
                for groups in ([GroupBy.HOUR, *wanted], [*wanted])
            )
            assert sorted(by_hours, key=repr) == sorted(by_days, key=repr)
        cut_us = ADMITTED_US + 2  # in the middle of an hour: its events are read one by one
        for org in ("org_0", "org_1"):
            whole, before, after = (
                usage_summary(store, org, from_us, to_us)[0]
                for from_us, to_us in ((0, NOW_US), (0, cut_us), (cut_us, NOW_US))
            )
            assert before.requests == 0
            assert whole == after


@LAW
@given(life=lives())
def test_replaying_everything_changes_nothing(
    template: Path, life: tuple[list[OpenedCall | SettledCall], dict[str, SettledCall]]
) -> None:
    deliveries, best = life
    with fresh(template) as store:
        deliver(store, deliveries, [])
        before = [call_by_rid(store, rid) for rid in best]
        deliver(store, deliveries, [3, 3, 3])
        assert [call_by_rid(store, rid) for rid in best] == before


@given(
    usage=usages, output_more=tokens, input_price=prices, cached_price=prices, output_price=prices
)
@example(Usage(input=1, cached_input=1), 0, 500_001, 500_001, 0)  # both parts round up
def test_a_hold_covers_every_charge_it_may_become(
    usage: Usage, output_more: int, input_price: int, cached_price: int, output_price: int
) -> None:
    at = Prices("v", "m", "t", False, input_price, cached_price, output_price, request=7_500_000)
    held = hold_for(usage.prompt, usage.output + output_more, at)
    assert rate(usage, at).amount_nanousd <= held


@given(one=usages, other=usages)
def test_rating_is_monotone(one: Usage, other: Usage) -> None:
    at = BOOK.of_version("pv_1", "tale-large", "default", False)
    assert not isinstance(at, Unpriced)
    assert rate(one, at).amount_nanousd <= rate(one + other, at).amount_nanousd


@given(starts=st.lists(st.integers(1, 10**6), unique=True), at_us=st.integers(0, 10**6))
def test_at_most_one_version_holds_at_an_instant(starts: list[int], at_us: int) -> None:
    book = make_book(PriceVersion(f"pv_{start}", start, None, ()) for start in starts)
    holding = [
        version
        for version in book.versions
        if version.effective_from_us <= at_us
        and (version.effective_to_us is None or at_us < version.effective_to_us)
    ]
    assert holding == ([book.at(at_us)] if book.at(at_us) else [])
    assert bool(holding) == any(start <= at_us for start in starts)
