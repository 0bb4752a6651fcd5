"""`sluice invoice explain`: from an invoice to its lines and their charges, equal at each step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from billing.invoices.months import run_invoices
from billing.invoices.terms import put_terms
from billing.prices.versions import put_into_force
from billing.terms.term import PercentTerm
from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.cli import main
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
from tests.gateway.edge import API_KEY, Edge

TENTH = PercentTerm(term_id="off", rate_ppm=100_000, first_month="2026-10")


@pytest.fixture
def number(one: Edge) -> str:
    """Of an invoice of three calls with a discount."""
    store = one.parts.ledger
    put_into_force(store, RATES, by="test", now_us=1, version_id="pv_1")
    for rid in ("req_1", "req_2", "req_3"):
        book(store, call(store, rid, IN_OCTOBER_US, org=ORGANIZATION_ID, output=9_000_000))
    put_terms(store, ORGANIZATION_ID, [TENTH], 1)
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run_invoices(store, "2026-10", now_us=IN_NOVEMBER_US, series="SLU")
    assert result.number is not None
    return result.number


def explain(one: Edge, folder: Path, *words: str) -> Result:
    variables = {"SLUICE_SQL_URL": one.parts.settings.sql, "SLUICE_REDIS_URL": "redis://none"}
    command = ["invoice", "explain", *words, "--data", str(folder)]
    return CliRunner().invoke(main, command, env=variables)


def test_invoice_is_explained_line_by_line_down_to_its_calls(
    one: Edge, number: str, tmp_path: Path
) -> None:
    whole = explain(one, tmp_path, number, "--calls", "--json")
    assert whole.exit_code == 0, whole.output
    answer: dict[str, Any] = json.loads(whole.output)
    assert answer["equal"] and answer["number"] == number
    for line in answer["lines"]:
        assert line["equal"] or line["kind"] == "rounding"
        of_calls = sum(each["amount_nanousd"] for each in line["calls"])
        assert of_calls == line["charged_nanousd"]
    (output,) = [line for line in answer["lines"] if line["component"] == "output"]
    assert [each["request"] for each in output["calls"]] == ["req_1", "req_2", "req_3"]
    (discount,) = [line for line in answer["lines"] if line["kind"] == "discount"]
    assert [each["kind"] for each in discount["calls"]] == ["discount"]
    one_line = explain(one, tmp_path, number, str(output["seq"]))
    assert one_line.exit_code == 0 and "req_1" not in one_line.output
    assert explain(one, tmp_path, number, "99").exit_code == 2
    assert explain(one, tmp_path, "SLU-2026-000099").exit_code == 2


def test_line_that_is_not_what_its_charges_sum_to_is_said(
    one: Edge, number: str, tmp_path: Path
) -> None:
    with one.parts.ledger.write() as conn:
        conn.execute(text("DROP TRIGGER transfer_insert_only_update"))
        conn.execute(
            text("UPDATE transfer SET kind = 'reversal' WHERE transfer_id = 'req_2:charge:1'")
        )
    wrong = explain(one, tmp_path, number, "1", "--json")
    assert wrong.exit_code == 1
    assert not json.loads(wrong.output)["equal"]


async def test_calls_of_a_line_come_in_pages(one: Edge, number: str) -> None:
    invoices = (await ask(one.app, "GET", "/admin/v1/invoices", b"", "admin"))[1]["data"]
    path = f"/admin/v1/invoices/{invoices[0]['id']}/lines/1/calls"
    seen: list[str] = []
    after = ""
    while True:
        status, page = await ask(one.app, "GET", f"{path}?limit=2{after}", b"", "admin")
        assert status == 200
        assert_described(one.app, "GET", path, status, page)
        seen += [each["request"] for each in page["data"]]
        if not page["has_more"]:
            break
        after = f"&after={page['after']}"
    assert seen == ["req_1", "req_2", "req_3"]
    assert (await ask(one.app, "GET", path.replace("/1/", "/99/"), b"", "admin"))[0] == 404


async def test_call_leads_to_its_invoice_and_lines_and_never_for_another(
    one: Edge, number: str
) -> None:
    path = "/v1/generations/req_1/invoice-lines"
    status, own = await ask(one.app, "GET", path, b"", API_KEY)
    assert status == 200, own
    assert_described(one.app, "GET", path, status, own)
    assert {line["number"] for line in own["lines"]} == {number}
    assert own["charged_usd"] == own["billed_usd"] and own["unbilled_usd"] == "0.00"
    admins = "/admin/v1/requests/req_1/invoice-lines"
    assert await ask(one.app, "GET", admins, b"", "admin") == (200, own)
    store = one.parts.ledger
    book(store, call(store, "req_x", IN_OCTOBER_US, org="org_other", output=9))
    hidden = await ask(one.app, "GET", path.replace("req_1", "req_x"), b"", API_KEY)
    assert hidden[0] == 404
    assert (await ask(one.app, "GET", admins.replace("req_1", "req_none"), b"", "admin"))[0] == 404
