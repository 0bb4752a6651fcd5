"""A ledger with a final invoice, a draft and late charges gets its sums and its cuts, exactly."""

from __future__ import annotations

from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, text

from billing.charges.laws import charges_recompute
from billing.db.engine import open_store
from billing.invoices.months import run_invoices
from billing.ledger.report import Outcome, silent
from billing.limits.keys import SHARDS
from billing.periods import period
from billing.writer import marks
from migrations.run import alembic_config, migrate, rebuilding
from tests.migrations.test_credits import insert, refused

BEFORE = "0050"
OCTOBER = period("2026-10")
AT_US, NOW_US = OCTOBER.start_us + 5, OCTOBER.end_us + 10**10


def test_sums_and_cuts_of_an_earlier_ledger_are_exact_and_bill_the_rest(url: str) -> None:
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), BEFORE)
        _fill(conn)
    migrate(url)
    checks = charges_recompute(store, silent)
    assert all(check.outcome is Outcome.HOLDS for check in checks), checks
    with store.read() as conn:
        assert conn.execute(text("SELECT * FROM invoice_cut")).all() == [
            ("final", OCTOBER.start_us, 0, 20)
        ]
        months = conn.execute(text("SELECT org, moved_us FROM charge_month")).all()
        assert months == [("o", 40)]
        prices = conn.execute(
            text(
                "SELECT kind, component, unit_price_nanousd_per_mtok, quantity, amount_nanousd, "
                "transfers FROM charge_sum ORDER BY 1, 2, 3"
            )
        ).all()
        assert prices == [
            ("adjustment", "input", 4_000_000, -100, -400, 1),
            ("adjustment", "output", 8_000_000, -1, -8, 1),
            ("credit", "", 0, 0, -50, 1),
            ("usage", "input", 4_000_000, 400, 1600, 4),
            ("usage", "input", 5_000_000, 300, 1500, 1),
            ("usage", "output", 8_000_000, 6, 48, 5),
        ]
        assert conn.execute(text("SELECT count(*) FROM invoice")).scalar_one() == 1
        assert conn.execute(text("SELECT transfers FROM invoice_line")).scalars().all() == [1, 1]
    for statement in ("DELETE FROM invoice_cut", "UPDATE invoice_line SET transfers = 9"):
        refused(store, statement)
    with store.write() as conn:
        marks.caught_up(conn, SHARDS, NOW_US)
    (november,) = run_invoices(store, "2026-11", now_us=NOW_US, series="SLU")
    assert november.invoice["subtotal_nanousd"] == 1600 + 1500 + 48 - 408 - 50 - 408
    assert all(check.outcome is Outcome.HOLDS for check in charges_recompute(store, silent)), (
        charges_recompute(store, silent)
    )
    with pytest.raises(RuntimeError, match="cannot go back"), rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), BEFORE)
    store.close()


def _fill(conn: Connection) -> None:
    """One call on a final invoice, one corrected, one with a long prompt, one on a draft, one that
    a grant pays in part. Prices have a discount of a fifth."""
    for code in ("org:o:unbilled", "revenue:usage", "org:o:grant:g"):
        insert(conn, "account", code=code, org=None, currency="USD", debits=0, credits=0)
    for version, org in (("pv", ""), ("own", "o")):
        given = {"version_id": version, "org": org, "status": "draft", "approved_us": None}
        given |= {"effective_from_us": None, "approved_by": None, "activated_by": None}
        insert(conn, "price_version", **given)
    for component, price, prompt_from in (
        *(("input", 5_000_000, 0), ("output", 10_000_000, 0), ("input", 6_250_000, 200)),
    ):
        rate = {"version_id": "pv", "model": "m", "tier": "t", "batch": False}
        rate |= {"component": component, "prompt_from": prompt_from, "units_max": None}
        insert(conn, "price_rate", nanousd_per_mtok=price, **rate)
    insert(conn, "price_discount", version_id="own", model="", basis_points=2000)
    conn.execute(text("UPDATE price_version SET status = 'approved', approved_us = 1"))
    conn.execute(text("UPDATE price_version SET status = 'active', effective_from_us = 2"))
    _record(conn, "usage_event", "a", 100, 400)
    _record(conn, "usage_event", "b", 100, 400)
    _record(conn, "usage_correction", "b", 100, 400, n=2, output=2, output_nanousd=16)
    _record(conn, "usage_event", "c", 300, 1500)
    _record(conn, "usage_event", "d", 100, 400)
    _charge(conn, "a:charge:1", 408, 20)
    _charge(conn, "b:charge:1", 408, 30)
    _charge(conn, "b:reversal:1", 408, 31, kind="reversal", reverses_id="b:charge:1")
    _charge(conn, "b:charge:2", 416, 31)
    _charge(conn, "c:charge:1", 1508, 32)
    _charge(conn, "d:charge:1", 408, 40)
    _charge(
        *(conn, "d:burn:1:g", 50, 40),
        **{"kind": "burn", "debit_account": "org:o:grant:g", "credit_account": "org:o:unbilled"},
    )
    for invoice_id, month, rid in (("final", "2026-10", "a"), ("draft", "2026-11", "d")):
        given = {"invoice_id": invoice_id, "org": "o", "period": month, "number": None}
        given |= {"status": "draft", "series": "SLU", "currency": "USD"}
        given |= {"subtotal_nanousd": 408, "rounding_nanousd": -408, "total_cents": 0}
        insert(conn, "invoice", **given)
        insert(conn, "invoice_transfer", transfer_id=f"{rid}:charge:1", invoice_id=invoice_id)
        for seq, (component, amount) in enumerate((("input", 400), ("output", 8)), start=1):
            line = {"invoice_id": invoice_id, "seq": seq, "kind": "usage", "project": "p"}
            line |= {"model": "m", "tier": "t", "batch": False, "component": component}
            line |= {"price_version": "pv+own", "grant_id": "", "is_simulated": False}
            line |= {"unit_price_nanousd_per_mtok": {"input": 4, "output": 8}[component] * 10**6}
            line |= {"quantity": {"input": 100, "output": 1}[component], "amount_nanousd": amount}
            span = {"service_start_us": OCTOBER.start_us, "service_end_us": OCTOBER.end_us}
            insert(conn, "invoice_line", **line, **span)
            link = {"invoice_id": invoice_id, "seq": seq, "transfer_id": f"{rid}:charge:1"}
            insert(conn, "invoice_line_transfer", **link, amount_nanousd=amount)
    conn.execute(
        text("UPDATE invoice SET status = 'finalised', number = 1 WHERE invoice_id = 'final'")
    )


def _record(
    conn: Connection, table: str, rid: str, prompt: int, input_nanousd: int, **values: Any
) -> None:
    zeros = ("cached_input", "cache_write", "reasoning", "gpu_ms")
    parts = ("cached_input", "cache_write", "reasoning", "request", "minimum", "gpu_ms")
    given: dict[str, Any] = {"rid": rid, "org": "o", "project": "p", "model": "m", "tier": "t"}
    given |= {"batch": False, "status": "answered", "source": "estimated"}
    given |= {"price_version": "pv+own", "is_simulated": False, "payload_sha": b"1"}
    given |= {"input": prompt, "output": 1, "input_nanousd": input_nanousd, "output_nanousd": 8}
    given |= dict.fromkeys((*zeros, *(f"{part}_nanousd" for part in parts)), 0)
    given |= {"admitted_us": AT_US, "ended_us": AT_US, "is_canary": None}
    given |= values
    given["amount_nanousd"] = given["input_nanousd"] + given["output_nanousd"]
    insert(conn, table, **given)


def _charge(conn: Connection, transfer_id: str, amount: int, place_us: int, **values: Any) -> None:
    given: dict[str, Any] = {"kind": "charge", "debit_account": "org:o:unbilled"}
    given |= {"credit_account": "revenue:usage", "reverses_id": None}
    if values.get("kind") == "reversal":
        given |= {"debit_account": "revenue:usage", "credit_account": "org:o:unbilled"}
    given |= {"transfer_id": transfer_id, "amount_nanousd": amount, "currency": "USD"}
    given |= {"org": "o", "rid": transfer_id[0], "booked_us": AT_US, "created_us": place_us}
    insert(conn, "transfer", **(given | values))
