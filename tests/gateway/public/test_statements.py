"""Statements over HTTP: a tenant's own alone, and any by an administrator."""

from __future__ import annotations

import csv
import io

from pypdf import PdfReader

from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.gateway.admin.test_payments import asked, number, one
from tests.gateway.api.asgi import answer, ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, Edge

__all__ = ["number", "one"]
OWN = "/v1/organization/statement"
ALL = "from=2026-01-01&to=2999-01-01"


async def test_tenant_and_administrator_read_one_statement(one: Edge, number: str) -> None:
    body = {"amount_usd": "5000.00", "external_id": "=wire-1"}
    _, invoice = await asked(one, "POST", f"/invoices/{number}/pay", body)
    status, own = await ask(one.app, "GET", f"{OWN}?{ALL}", b"", API_KEY)
    assert_described(one.app, "GET", OWN, status, own)
    path = f"/organizations/{ORGANIZATION_ID}/statement"
    assert await asked(one, "GET", f"{path}?{ALL}") == (200, own)
    assert [entry["kind"] for entry in own["entries"]] == ["invoice", "payment"]
    assert own["entries"][0]["number"] == number
    assert (own["invoiced_usd"], own["paid_usd"]) == (invoice["total_usd"], "5000.00")
    assert own["closing_usd"] == own["entries"][-1]["balance_usd"]
    headers = {"authorization": f"Bearer {API_KEY}"}
    table = await answer(one.app, "GET", f"{OWN}.csv?{ALL}", headers=headers)
    rows = list(csv.DictReader(io.StringIO(table.body.decode())))
    assert [row["kind"] for row in rows] == [
        *("opening_balance", "invoice", "payment", "closing_balance")
    ]
    assert rows[2]["number"] == "'=wire-1" and rows[-1]["balance_usd"] == own["closing_usd"]
    pdf = await answer(one.app, "GET", f"{OWN}.pdf?{ALL}", headers=headers)
    assert (pdf.status, pdf.headers["content-type"]) == (200, "application/pdf")
    as_admin = {"authorization": "Bearer admin"}
    again = await answer(one.app, "GET", f"/admin/v1{path}.pdf?{ALL}", headers=as_admin)
    assert again.body == pdf.body and again.headers["etag"] == pdf.headers["etag"]
    shown = "".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf.body)).pages)
    assert f"Invoice {number}" in shown and "Payment =wire-1" in shown


async def test_spans_that_cannot_be_and_strangers_are_refused(one: Edge, number: str) -> None:
    for query, param in (
        ("from=2026-02-01&to=2026-01-01", "to"),
        ("from=yesterday", "from"),
        ("to=-1", "to"),
        ("to=99999999999999", "to"),
    ):
        status, told = await ask(one.app, "GET", f"{OWN}?{query}", b"", API_KEY)
        assert (status, told["error"]["param"]) == (400, param), (query, told)
    for form in ("", ".csv", ".pdf"):
        assert (await asked(one, "GET", f"/organizations/org_nobody/statement{form}"))[0] == 404
    assert (await ask(one.app, "GET", OWN, b"", "sk-sluice-none"))[0] == 401
    status, told = await ask(one.app, "GET", f"{OWN}?to=1790000000", b"", API_KEY)
    assert (status, told["closing_usd"]) == (200, "0.00")
