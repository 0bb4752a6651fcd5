"""Invoice runs on a real SQLite and a real PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from billing.charges.trace import line_transfers
from billing.credits.credit import Category, Grant
from billing.credits.grants import give
from billing.db.engine import Store
from billing.documents.forms.csv_table import csv_of
from billing.documents.forms.focus import focus_csv
from billing.documents.invoice_document import document_of, party_named
from billing.invoices.months import list_invoices, run_invoices
from billing.invoices.result import InvoiceResult
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.limits.keys import SHARDS
from billing.periods import BadPeriod, period
from billing.prices.book import Component, Discount, PriceRate
from billing.prices.estimate import cut_call
from billing.prices.rating import rate_frozen
from billing.prices.versions import load_book, put_into_force
from billing.queries import usage_summary
from billing.types import (
    OpenedCall,
    RareUsage,
    SettledCall,
    UsageCheckpoint,
    UsageSource,
    encode,
)
from billing.usage.call_laws import PARTS
from billing.verify import verify
from billing.writer import marks
from tests.billing.calls import opened_call, settled_call

SEPTEMBER, OCTOBER = period("2026-09"), period("2026-10")
IN_OCTOBER_US, IN_NOVEMBER_US = OCTOBER.end_us - 1, OCTOBER.end_us + 3_600_000_000


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def call(store: Store, rid: str, at_us: int, **changes: Any) -> SettledCall:
    """A call that ended at an instant, with the amount the book gives it."""
    made = settled_call(opened_call(rid, admitted_us=at_us), 0, **{"ended_us": at_us, **changes})
    charge = rate_frozen(
        load_book(store),
        model=made.model,
        tier=made.tier,
        batch=made.batch,
        usage=made.usage,
        price_version=made.price_version,
    )
    return settled_call(
        opened_call(rid, admitted_us=at_us),
        charge.amount_nanousd,
        **{"ended_us": at_us, **changes},
    )


def book(store: Store, *payloads: SettledCall | OpenedCall, now_us: int = IN_NOVEMBER_US) -> None:
    records = [
        Record(
            0,
            f"{now_us}-{place}",
            "settled" if isinstance(payload, SettledCall) else "reserved",
            payload.rid,
            encode(payload),
        )
        for place, payload in enumerate(payloads)
    ]
    prices = load_book(store)
    with store.write() as conn:
        booked = booking.book(conn, booking.read(records, prices, now_us))
    assert not booked.failures


def caught_up(store: Store, at_us: int) -> None:
    with store.write() as conn:
        marks.caught_up(conn, SHARDS, at_us)


def run(store: Store, month: str, now_us: int = IN_NOVEMBER_US) -> list[InvoiceResult]:
    return run_invoices(store, month, now_us=now_us, series="SLU")


def holds(store: Store) -> bool:
    report = verify(store, now_us=IN_NOVEMBER_US)
    assert report.ok, report.as_text()
    return True


def test_an_open_month_is_a_draft_computed_anew(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US))
    (first,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    book(store, call(store, "req_2", IN_OCTOBER_US))
    (second,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    assert (first.invoice["status"], second.invoice["number"]) == ("draft", None)
    assert second.invoice["subtotal_nanousd"] == 2 * first.invoice["subtotal_nanousd"]
    assert "2026-10 has not ended" in second.draft_because
    assert holds(store)


UNIT_PRICES = {
    Component.INPUT: 0,
    Component.OUTPUT: 0,
    Component.AUDIO_INPUT: 6_000_000_000,
    Component.SEARCH_UNIT: 2_000_000_000_000,
    Component.SECOND: 100_000_000_000,
    "image/1024x1024/high": 167_000_000_000_000,
    Component.IMAGE: 40_000_000_000_000,
}
USED = {
    "search": RareUsage(units=3, unit="search_unit"),
    "high": RareUsage(units=2, unit="image/1024x1024/high"),
    "low": RareUsage(units=5, unit="image/512x512/low"),
    "heard": RareUsage(units=90, unit="second", audio_input=1_000),
}


def test_units_have_lines_of_their_own_by_what_they_are(store: Store) -> None:
    """From the record of a call to every form of a document, and the ledger stays lawful."""
    rates = [PriceRate("tale-large", "default", name, each) for name, each in UNIT_PRICES.items()]
    put_into_force(store, rates, by="t", now_us=SEPTEMBER.start_us + 9, version_id="units")
    nothing = {"input": 0, "output": 0, "price_version": "units"}
    calls = [
        call(store, f"req_{name}_{n}", IN_OCTOBER_US, rare=rare, **nothing)
        for name, rare in USED.items()
        for n in range(2)
    ]
    late = {"source": UsageSource.ESTIMATED, "rare": RareUsage(units=9, unit="second")} | nothing
    book(store, *calls, call(store, "req_late", IN_OCTOBER_US, **late))
    better = late | {"source": UsageSource.EXACT, "rare": RareUsage(units=4, unit="second")}
    book(store, call(store, "req_late", IN_OCTOBER_US, **better))
    (result,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    billed = {
        (line["kind"], line["component"]): (line["quantity"], line["amount_nanousd"])
        for line in result.lines
        if line["component"]
    }
    assert billed == {
        ("usage", "search_unit"): (6, 12_000_000),
        ("usage", "image/1024x1024/high"): (4, 668_000_000),
        ("usage", "image/512x512/low"): (10, 400_000_000),
        ("usage", "second"): (90 * 2 + 9 + 4, 19_300_000),
        ("usage", "audio_input"): (2_000, 12_000_000),
        ("adjustment", "second"): (-9, -900_000),
    }
    assert holds(store)
    parties = {"seller": party_named("s"), "buyer": party_named("b")}
    document = document_of(result, **parties, categories={})
    rows = csv_of(document).decode()
    for measure in ("search_unit", "image", "second", "token"):
        assert f",{measure}," in rows
    focus = focus_csv([document]).decode()
    for unit in ("1000000 Search Units", "1000000 Images", "1000000 Seconds"):
        assert unit in focus
    (image,) = [each for each in result.lines if each["component"] == "image/1024x1024/high"]
    linked = line_transfers(store, result.invoice["invoice_id"], image["seq"])
    assert sum(each["amount_nanousd"] for each in linked) == image["amount_nanousd"]
    (sums,) = usage_summary(store, "org_1", OCTOBER.start_us, OCTOBER.end_us, [])
    assert (sums.units, sums.audio_input) == (6 + 4 + 10 + 184, 2_000)


def test_what_simulated_pools_served_has_lines_of_its_own(store: Store) -> None:
    """Also where its gateway was lost, and what it left was estimated."""
    opened = opened_call("req_cut", admitted_us=IN_OCTOBER_US)
    left = UsageCheckpoint(
        **{"seq": 1, "model": opened.model, "tier": opened.tier, "pool": "played"},
        **{"input": 3, "cached_input": 0, "output": 5, "at_us": IN_OCTOBER_US},
        is_simulated=True,
    )
    prices = load_book(store)
    rate = lambda **of: rate_frozen(prices, **of).amount_nanousd  # noqa: E731
    cut = cut_call(opened, left, ended_us=IN_OCTOBER_US, rate=rate)
    played = call(store, "req_played", IN_OCTOBER_US, is_simulated=True)
    real = call(store, "req_real", IN_OCTOBER_US)
    assert b"simulated" not in encode(real), "records of other calls keep their bytes"
    book(store, cut, played, real)
    (result,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    billed = {True: 0, False: 0}
    for line in result.lines:
        if line["kind"] == "usage":
            billed[bool(line["is_simulated"])] += line["amount_nanousd"]
    assert cut.amount_nanousd > 0
    assert billed[True] == cut.amount_nanousd + played.amount_nanousd
    assert billed[False] == real.amount_nanousd
    assert holds(store)


def test_list_says_why_each_draft_is_one(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US))
    run(store, "2026-10", now_us=IN_OCTOBER_US)
    (listed,) = list_invoices(store, now_us=IN_OCTOBER_US)
    assert "2026-10 has not ended" in listed.draft_because
    caught_up(store, IN_NOVEMBER_US)
    (listed,) = list_invoices(store, now_us=IN_NOVEMBER_US)
    assert listed.draft_because == ("the invoice run that finalises it is still to come",)
    run(store, "2026-10")
    (listed,) = list_invoices(store, now_us=IN_NOVEMBER_US)
    assert (listed.invoice["status"], listed.draft_because) == ("finalised", ())


def test_lines_are_by_project_model_tier_and_component(store: Store) -> None:
    book(
        store,
        call(store, "req_1", IN_OCTOBER_US, cached_input=7),
        call(store, "req_2", IN_OCTOBER_US, model="tale-small", project="proj_2"),
        call(store, "req_3", IN_OCTOBER_US, tier="priority"),
    )
    (result,) = run(store, "2026-10")
    lines = [
        (line["project"], line["model"], line["tier"], line["component"], line["quantity"])
        for line in result.lines
        if line["kind"] == "usage"
    ]
    assert ("proj_1", "tale-large", "default", "cached_input", 7) in lines
    assert ("proj_2", "tale-small", "default", "output", 56) in lines
    assert ("proj_1", "tale-large", "priority", "request", 1) in lines
    assert len(lines) == 4 + 3 + 3
    usage = sum(line["amount_nanousd"] for line in result.lines if line["kind"] == "usage")
    assert usage == result.invoice["subtotal_nanousd"]
    assert holds(store)


def test_every_line_names_its_transfers(store: Store) -> None:
    book(store, *(call(store, f"req_{n}", IN_OCTOBER_US) for n in range(3)))
    (result,) = run(store, "2026-10")
    links = line_transfers(store, result.invoice["invoice_id"], 1)
    assert [link["rid"] for link in links] == ["req_0", "req_1", "req_2"]
    assert sum(link["amount_nanousd"] for link in links) == result.lines[0]["amount_nanousd"]


def test_a_correction_is_a_line_of_its_own(store: Store) -> None:
    estimate = call(store, "req_1", IN_OCTOBER_US, output=10, source=UsageSource.ESTIMATED)
    exact = call(store, "req_1", IN_OCTOBER_US)
    book(store, estimate, exact)
    (result,) = run(store, "2026-10")
    adjusted = sum(line["amount_nanousd"] for line in result.lines if line["kind"] == "adjustment")
    assert adjusted == -estimate.amount_nanousd
    assert result.invoice["subtotal_nanousd"] == exact.amount_nanousd
    assert holds(store)


def test_a_past_month_is_finalised_once_and_numbered(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US))
    book(store, call(store, "req_2", IN_OCTOBER_US, org="org_2"))
    caught_up(store, IN_NOVEMBER_US)
    first, second = run(store, "2026-10")
    assert [r.invoice["status"] for r in (first, second)] == ["finalised"] * 2
    assert [r.invoice["number"] for r in (first, second)] == [1, 2]
    assert run(store, "2026-10") == [first, second]
    assert first.number == "SLU-2026-000001"
    assert holds(store)


def test_finalising_moves_what_is_unbilled_to_what_is_owed(store: Store) -> None:
    book(store, *(call(store, f"req_{n}", IN_OCTOBER_US, output=50_000) for n in range(9)))
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    with store.read() as conn:
        owed = conn.execute(
            text("SELECT debits - credits FROM account WHERE code = 'org:org_1:receivable'")
        ).scalar_one()
        left = conn.execute(
            text("SELECT debits - credits FROM account WHERE code = 'org:org_1:unbilled'")
        ).scalar_one()
    assert (owed, left) == (result.invoice["total_cents"] * 10_000_000, 0)
    assert holds(store)


def test_an_open_hold_keeps_the_month_a_draft(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US))
    book(store, opened_call("req_2", admitted_us=IN_OCTOBER_US))
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    assert result.invoice["status"] == "draft"
    assert result.draft_because == ("1 of its calls are still open",)


def test_a_writer_that_lags_keeps_the_month_a_draft(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US))
    caught_up(store, IN_OCTOBER_US)
    (result,) = run(store, "2026-10")
    assert result.draft_because == ("the writer is not known to be past it",)


def test_what_comes_late_goes_on_the_next_invoice(store: Store) -> None:
    book(store, call(store, "req_1", SEPTEMBER.end_us - 1, source=UsageSource.ESTIMATED, output=1))
    caught_up(store, IN_NOVEMBER_US)
    (september,) = run(store, "2026-09")
    book(store, call(store, "req_1", SEPTEMBER.end_us - 1), call(store, "req_2", IN_OCTOBER_US))
    (october,) = run(store, "2026-10")
    late = [line for line in october.lines if line["service_end_us"] == SEPTEMBER.end_us]
    assert {line["kind"] for line in late} == {"usage", "adjustment"}
    assert run(store, "2026-09") == [september]
    assert holds(store)


def test_a_finalised_invoice_cannot_be_changed(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US))
    caught_up(store, IN_NOVEMBER_US)
    run(store, "2026-10")
    for statement in (
        "UPDATE invoice SET total_cents = 0",
        "DELETE FROM invoice_line",
        "INSERT INTO invoice_line SELECT invoice_id, 99, kind, project, model, tier, batch, "
        "component, price_version, 1, 1, 1, 1, 1, '', FALSE, 0, NULL, '', '' FROM invoice_line "
        "LIMIT 1",
        "DELETE FROM invoice_cut",
        "UPDATE invoice_cut SET upto_us = upto_us + 1",
    ):
        with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
            conn.execute(text(statement))


def test_a_month_without_usage_has_no_invoice(store: Store) -> None:
    assert run(store, "2026-10") == []


@pytest.mark.parametrize("month", ["2026-13", "2026-1", "october", "202610"])
def test_a_month_is_named_in_full(store: Store, month: str) -> None:
    with pytest.raises(BadPeriod):
        run(store, month)


def test_every_component_is_invoiced_summed_and_rated_again(store: Store) -> None:
    """Under an agreement, with a prompt that is long and a call that owes the minimum."""
    prices = {
        Component.INPUT: 1_000_000,
        Component.CACHED_INPUT: 100_001,
        Component.CACHE_WRITE: 1_250_001,
        Component.OUTPUT: 5_000_003,
        Component.REASONING: 7_000_001,
        Component.REQUEST: 2_000_000,
        Component.MINIMUM: 700_000_000,
        Component.GPU_MS: 500_001,
    }
    rates = [
        PriceRate(
            "tale-large",
            "default",
            component,
            price,
            units_max=1000 if component is Component.GPU_MS else None,
        )
        for component, price in prices.items()
    ]
    longer = PriceRate("tale-large", "default", Component.INPUT, 2_000_000, prompt_from=500)
    put_into_force(store, [*rates, longer], by="t", now_us=IN_OCTOBER_US - 9, version_id="all")
    off = [Discount("tale-large", 1250)]
    put_into_force(
        store, [], by="t", now_us=IN_OCTOBER_US - 9, version_id="own", org="org_1", discounts=off
    )
    used = {"cached_input": 100, "cache_write": 99, "reasoning": 77, "gpu_ms": 1500}
    frozen = {"price_version": "all+own"}
    calls = [
        call(store, "req_1", IN_OCTOBER_US, input=301, **used, **frozen),
        call(store, "req_2", IN_OCTOBER_US, input=300, **used, **frozen),
        call(store, "req_3", IN_OCTOBER_US, input=1, output=0, **frozen),
    ]
    book(store, *calls)
    (result,) = run(store, "2026-10")
    amounts = {
        (line["component"], line["unit_price_nanousd_per_mtok"]): (
            line["quantity"],
            line["amount_nanousd"],
        )
        for line in result.lines
        if line["kind"] == "usage"
    }
    assert {component for component, _ in amounts} == {str(component) for component in prices}
    assert amounts["input", 1_750_000][0] == 301
    assert amounts["input", 875_000][0] == 301, "the other two, of shorter prompts"
    assert amounts["gpu_ms", 437_501] == (2000, 876)
    assert amounts["minimum", 612_500_000][0] == 1
    assert sum(amount for _, amount in amounts.values()) == sum(c.amount_nanousd for c in calls)
    (total,) = usage_summary(store, "org_1", 0, IN_NOVEMBER_US)
    assert (total.cache_write, total.reasoning, total.gpu_ms) == (198, 154, 3000)
    assert total.amount_nanousd == sum(getattr(total, name) for name in PARTS)
    report = verify(store, now_us=IN_NOVEMBER_US)
    assert report.ok, report.as_text()


def granted(store: Store, grant_id: str, amount: int, **terms: Any) -> None:
    at_us = SEPTEMBER.start_us
    given = {"category": Category.PAID, "effective_us": at_us, "created_us": at_us}
    grant = Grant(grant_id=grant_id, org="org_1", amount_nanousd=amount, **(given | terms))
    give(store, grant, created_by="test", now_us=at_us)


def test_credits_are_lines_of_their_own_and_the_total_is_usage_minus_them(store: Store) -> None:
    estimate = call(store, "req_1", IN_OCTOBER_US, output=10, source=UsageSource.ESTIMATED)
    exact, other = call(store, "req_1", IN_OCTOBER_US), call(store, "req_2", IN_OCTOBER_US)
    granted(store, "first", exact.amount_nanousd, priority=1)
    granted(store, "second", 100)
    book(store, estimate, exact, other)
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    credits = {
        line["grant_id"]: line["amount_nanousd"]
        for line in result.lines
        if line["kind"] == "credit"
    }
    assert credits == {"first": -exact.amount_nanousd, "second": -100}
    due = other.amount_nanousd - 100
    assert result.invoice["subtotal_nanousd"] == due
    usage = sum(x["amount_nanousd"] for x in result.lines if x["kind"] in ("usage", "adjustment"))
    assert usage == exact.amount_nanousd + other.amount_nanousd
    shown = [line for line in result.lines if line["kind"] == "credit"]
    assert [line["grant_id"] for line in shown] == ["first", "second"]
    assert holds(store)


def test_an_invoice_that_credits_have_paid_comes_to_nothing_and_is_issued(store: Store) -> None:
    granted(store, "g", 10**12)
    book(store, call(store, "req_1", IN_OCTOBER_US))
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    assert (result.invoice["status"], result.invoice["total_cents"]) == ("finalised", 0)
    with store.read() as conn:
        codes = conn.execute(
            text("SELECT code FROM account WHERE code LIKE 'org:%' AND debits <> credits")
        ).scalars()
        assert list(codes) == ["org:org_1:grant:g"]
    assert holds(store)
