"""Payments by the admin API and by `sluice invoice`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from billing.invoices.months import run_invoices
from billing.prices.versions import put_into_force
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
)
from tests.gateway.admin.test_documents import RATES
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.commands.conftest import one, sluice
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import API_KEY, Edge

__all__ = ["one", "sluice"]


@pytest.fixture
def number(one: Edge) -> str:
    """Of a final invoice."""
    store = one.parts.ledger
    put_into_force(store, RATES, by="test", now_us=1, version_id="pv_1")
    book(store, call(store, "req_1", IN_OCTOBER_US, org=ORGANIZATION_ID, output=1_234_567))
    caught_up(store, IN_NOVEMBER_US)
    (issued,) = run_invoices(store, "2026-10", now_us=IN_NOVEMBER_US, series="SLU")
    assert issued.number is not None
    return issued.number


async def asked(one: Edge, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, f"/admin/v1{path}", raw, "admin")
    if status == 200:
        assert_described(one.app, method, f"/admin/v1{path}", status, answer)
    return status, answer


async def test_payment_is_booked_listed_refunded_and_reversed(one: Edge, number: str) -> None:
    body = {"amount_usd": "5000.00", "external_id": "wire-1"}
    status, invoice = await asked(one, "POST", f"/invoices/{number}/pay", body)
    assert (status, invoice["due_usd"]) == (200, "0.00")
    assert invoice["paid_usd"] == invoice["total_usd"]
    assert (await asked(one, "POST", f"/invoices/{invoice['id']}/pay", body))[1] == invoice
    _, page = await asked(one, "GET", f"/payments?invoice={invoice['id']}")
    (payment,) = page["data"]
    assert (payment["invoice"], payment["applied_usd"]) == (invoice["id"], invoice["total_usd"])
    _, own = await ask(one.app, "GET", "/v1/organization/invoices", b"", API_KEY)
    assert own["data"][0]["due_usd"] == "0.00"
    path = f"/payments/{payment['id']}"
    back = {"external_id": "r-1", "reason": "too much"}
    assert (await asked(one, "POST", f"{path}/refund", back))[1]["on_account_usd"] == "0.00"
    assert (await asked(one, "POST", f"{path}/reverse", {"reason": "bounced"}))[1]["reversed"]
    events = f"/invoices/{invoice['id']}/events"
    _, history = await asked(one, "GET", events)
    assert [each["kind"] for each in history["data"]] == ["issued", "payment", "payment_back"]
    assert history["data"][-1]["reason"] == "bounced" and history["next_dunning_step"] is None
    _, first = await asked(one, "GET", f"{events}?limit=2")
    _, rest = await asked(one, "GET", f"{events}?limit=2&after={first['after']}")
    assert first["data"] + rest["data"] == history["data"] and not rest["has_more"]
    assert (await asked(one, "GET", "/invoices/inv_none/events"))[0] == 404
    _, again = await asked(one, "POST", f"/invoices/{number}/apply-balance")
    assert (again["paid_usd"], again["due_usd"]) == ("0.00", invoice["total_usd"])
    _, page = await asked(one, "GET", "/payments?limit=1")
    assert len(page["data"]) == 1 and not page["has_more"]


async def test_what_is_wrong_is_refused_in_words(one: Edge, number: str) -> None:
    pay = f"/invoices/{number}/pay"
    right = {"amount_usd": "1.00", "external_id": "w"}
    for path, sent, expected in (
        (pay, right | {"amount_usd": "1.005"}, (400, "amount_usd")),
        (pay, right | {"amount_usd": "0"}, (400, "amount_usd")),
        (pay, right | {"currency": "EUR"}, (400, "currency")),
        (pay, right | {"received_at": "2999-01-01T00:00:00Z"}, (400, "received_at")),
        ("/invoices/SLU-2026-000009/pay", right, (404, None)),
        ("/payments/pay_0/reverse", {"reason": "a"}, (404, None)),
        ("/payments/pay_0/refund", {"external_id": "a", "reason": "a"}, (404, None)),
        ("/payments/import", {"csv": "a,b"}, (400, "csv")),
    ):
        status, answer = await asked(one, "POST", path, sent)
        assert (status, answer["error"]["param"]) == expected, (path, sent, answer)
    await asked(one, "POST", pay, right)
    status, answer = await asked(one, "POST", pay, right | {"amount_usd": "2.00"})
    assert (status, answer["error"]["code"]) == (409, "conflict")


async def test_commands_pay_and_import(
    one: Edge, sluice: Sluice, number: str, tmp_path: Path
) -> None:
    words = ("invoice", "pay", number, "--amount-usd", "1.00", "--external-id", "wire-1")
    invoice = await sluice.json(*words)
    assert invoice["paid_usd"] == "1.00"
    assert "paid_usd" in await sluice(*words)
    file = tmp_path / "statement.csv"
    file.write_text(f"date,amount,text\n2026-11-01,2.00,{number}\n")
    assert "1 payment booked, 0 known before" in await sluice(
        "invoice", "import-payments", str(file)
    )
    assert "0 payments booked, 1 known before" in await sluice(
        "invoice", "import-payments", str(file)
    )
