"""The files of invoices over HTTP: kept once issued, a tenant's own alone, and refused in words."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from lxml import etree
from msgspec.structs import replace
from redis.asyncio import Redis
from sqlalchemy import text

from billing.documents import store as documents
from billing.documents.document import Document
from billing.documents.forms.e_invoice import Syntax
from billing.invoices.months import invoice_by_id, run_invoices
from billing.parties import store as parties
from billing.periods import period
from billing.prices.book import Component, PriceRate
from billing.prices.versions import put_into_force
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.billing.documents.made import document
from tests.billing.documents.rules import complaints
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
)
from tests.billing.taxes.test_tax_rule import BUYER, REVERSE, SELLER
from tests.gateway.api.asgi import Answer, answer
from tests.gateway.edge import API_KEY, Edge, edge
from tests.redis_server import RedisServer

ADMIN = "admin"
RATES = [
    PriceRate(model="tale-large", tier="default", component=component, nanousd_per_mtok=price)
    for component, price in ((Component.INPUT, 300_000_000), (Component.OUTPUT, 900_000_000))
]
OCTOBER, NOVEMBER = "2026-10", "2026-11"


@dataclass(frozen=True, slots=True)
class Office:
    """A gateway whose tenant has an issued invoice of October and a draft of November."""

    one: Edge
    issued: str
    draft: str
    foreign: str

    async def get(self, path: str, key: str = ADMIN) -> Answer:
        headers = {"authorization": f"Bearer {key}"}
        return await answer(self.one.app, "GET", path, headers=headers)

    async def admin(self, name: str) -> Answer:
        return await self.get(f"/admin/v1/invoices/{name}")

    async def own(self, name: str) -> Answer:
        return await self.get(f"/v1/organization/invoices/{name}", API_KEY)


@pytest.fixture
async def office(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Office]:
    async with edge(redis_server, redis, tmp_path) as one:
        store = one.parts.ledger
        put_into_force(store, RATES, by="test", now_us=1, version_id="pv_1")
        for rid, at_us, org in (
            ("req_1", IN_OCTOBER_US, ORGANIZATION_ID),
            ("req_2", IN_NOVEMBER_US, ORGANIZATION_ID),
            ("req_3", IN_OCTOBER_US, "org_other"),
        ):
            book(store, call(store, rid, at_us, org=org, output=1_234_567))
        caught_up(store, IN_NOVEMBER_US)
        now_us = IN_NOVEMBER_US
        made = [
            (result.invoice["period"], result.invoice["org"], result.invoice["invoice_id"])
            for month in (OCTOBER, NOVEMBER)
            for result in run_invoices(store, month, now_us=now_us, series="SLU")
        ]
        ids = {(month, org): invoice_id for month, org, invoice_id in made}
        yield Office(
            one,
            ids[OCTOBER, ORGANIZATION_ID],
            ids[NOVEMBER, ORGANIZATION_ID],
            ids[OCTOBER, "org_other"],
        )


async def test_file_names_the_parties_and_the_tax_that_were_frozen(office: Office) -> None:
    store = office.one.parts.ledger
    buyer = replace(BUYER, org=ORGANIZATION_ID, language="de", buyer_reference="04011000-1")
    parties.put_seller(store, replace(SELLER, series="EU"), 1)
    parties.put_profile(store, buyer, 1)
    parties.put_rule(store, REVERSE, 1)
    later_us = period("2026-12").end_us
    caught_up(store, later_us)
    run_invoices(store, NOVEMBER, now_us=later_us, series="SLU", org=ORGANIZATION_ID)
    parties.put_profile(store, replace(buyer, legal_name="Other"), 2)
    told = (await office.admin(f"{office.draft}.json")).json
    assert told["number"] == "EU-2026-000001"
    assert (told["seller"]["name"], told["buyer"]["name"]) == ("Sluice", "Buyer")
    assert told["buyer"]["vat_id"] == "ATU13585627" and told["due"] == "2027-01-31"
    assert [tax["category"] for tax in told["taxes"]] == ["AE"]
    unnamed = (await office.admin(f"{office.issued}.json")).json
    assert unnamed["buyer"]["vat_id"] == "", "it was issued before there was a seller"


async def test_void_invoice_keeps_its_number_and_its_files_and_counts_no_more(
    office: Office,
) -> None:
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}

    async def void(invoice_id: str, key: str = ADMIN) -> Answer:
        path, sent = f"/admin/v1/invoices/{invoice_id}/void", b'{"reason": "wrong price"}'
        as_key = headers | {"authorization": f"Bearer {key}"}
        return await answer(office.one.app, "POST", path, sent, headers=as_key)

    before = await office.admin(f"{office.issued}.json")
    gone = await void(office.issued)
    assert (gone.status, gone.json["status"]) == (200, "void")
    assert gone.json["number"] == before.json["number"]
    assert (await office.admin(f"{office.issued}.json")).body == before.body
    table = rows((await office.admin(f"focus.csv?period={OCTOBER}")).body)
    assert before.json["number"] not in {row["InvoiceId"] for row in table}
    own = (await office.get("/v1/organization/invoices", API_KEY)).json["data"]
    assert [each["status"] for each in own] == ["void", "draft"]
    assert (await void(office.draft)).status == 409
    assert (await void("inv_0")).status == 404
    assert (await void(office.issued, API_KEY)).status == 401


async def test_draft_is_held_approved_and_not_issued_before_its_month_ends(office: Office) -> None:
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}

    async def post(invoice_id: str, verb: str, body: bytes = b"") -> Answer:
        path = f"/admin/v1/invoices/{invoice_id}/{verb}"
        return await answer(office.one.app, "POST", path, body, headers=headers)

    reason = b'{"reason": "asks back"}'
    held = await post(office.draft, "hold", reason)
    assert (held.json["status"], held.json["parked_because"]) == (
        "parked",
        ["it is held back: asks back"],
    )
    assert (await post(office.draft, "approve")).json["parked_because"] == []
    early = await post(office.draft, "issue")
    assert (early.status, early.json["error"]["code"]) == (409, "invoice_status")
    assert (await post(office.issued, "hold", reason)).status == 409
    gone = await post(office.issued, "uncollectible", reason)
    assert (gone.status, gone.json["status"]) == (200, "uncollectible")
    assert (await post(office.issued, "void", reason)).status == 409
    assert (await post("inv_0", "issue")).status == 404


async def test_one_invoice_has_its_lines_and_a_list_has_them_if_asked(office: Office) -> None:
    listed, with_lines = [
        (await office.get(f"/admin/v1/invoices{query}")).json["data"][0]
        for query in ("", "?lines=true")
    ]
    assert {**listed, "lines": with_lines["lines"]} == with_lines
    assert "lines" not in listed
    cents = sum(line["amount_cents"] for line in with_lines["lines"])
    assert cents == round(float(with_lines["net_usd"]) * 100)
    for name in (listed["id"], listed["number"]):
        assert (await office.get(f"/admin/v1/invoices/{name}")).json == with_lines
        own = (await office.get(f"/v1/organization/invoices/{name}", API_KEY)).json
        assert (own["id"], own["lines"]) == (office.issued, with_lines["lines"])
    for path in ("/admin/v1/invoices/inv_0", "/admin/v1/invoices/SLU-2026-000009"):
        assert (await office.get(path)).status == 404


async def test_credit_note_has_files_of_its_own_and_goes_into_focus(office: Office) -> None:
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
    path = f"/admin/v1/invoices/{office.issued}/credit"

    async def credit(body: bytes) -> Answer:
        named = json.dumps({"external_id": sha256(body).hexdigest()} | json.loads(body)).encode()
        return await answer(office.one.app, "POST", path, named, headers=headers)

    total = (await office.admin(f"{office.issued}.json")).json["total_cents"]
    above = b'{"reason": "a", "amount_usd": "99999.00"}'
    for wrong in (
        above,
        b'{"reason": "a", "amount_usd": "0.001"}',
        b'{"reason": "a", "lines": [{}]}',
    ):
        assert (await credit(wrong)).status == 400
    note = await credit(b'{"reason": "outage", "amount_usd": "0.03"}')
    assert (note.status, note.json["total_cents"], note.json["credits"]) == (201, 3, office.issued)
    assert note.json["number"] == "SLU-CN-2026-000001"
    told = (await office.own(f"{note.json['id']}.json")).json
    assert (told["kind"], told["total_cents"], told["reason"]) == ("credit_note", 3, "outage")
    assert (await office.admin(f"{note.json['id']}.pdf")).body.startswith(b"%PDF")
    listed = (await office.get(f"/admin/v1/credit-notes?invoice={office.issued}")).json
    assert [each["id"] for each in listed["data"]] == [note.json["id"]]
    query = f"focus.csv?period={OCTOBER}&organization={ORGANIZATION_ID}"
    table = rows((await office.admin(query)).body)
    assert round(sum(float(row["BilledCost"]) for row in table) * 100) == total - 3
    again = await credit(b'{"reason": "outage", "amount_usd": "0.03"}')
    assert again.json == note.json
    other = await credit(
        b'{"external_id": "%s", "reason": "outage", "amount_usd": "0.02"}'
        % sha256(b'{"reason": "outage", "amount_usd": "0.03"}').hexdigest().encode()
    )
    assert (other.status, other.json["error"]["code"]) == (409, "conflict")
    unnamed = b'{"reason": "no name", "amount_usd": "0.01"}'
    once, twice = [
        await answer(office.one.app, "POST", path, unnamed, headers=headers) for _ in range(2)
    ]
    assert (once.status, once.json["total_cents"]) == (201, 1)
    assert twice.json == once.json, "a request that is sent again credits nothing more"
    rest = await credit(b'{"reason": "the rest"}')
    assert rest.json["total_cents"] == total - 4
    assert (await credit(b'{"reason": "again"}')).status == 400
    (own,) = (await office.get("/v1/organization/invoices?limit=1", API_KEY)).json["data"]
    assert own["status"] == "paid"


async def test_one_off_invoice_is_an_issued_document_on_a_fresh_stack(office: Office) -> None:
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}

    async def post(path: str, body: bytes = b"") -> Answer:
        path = f"/admin/v1/invoices{path}"
        return await answer(office.one.app, "POST", path, body, headers=headers)

    line = b'{"description": "Onboarding", "quantity": 3, "unit_price_usd": "0.50"}'
    body = b'{"organization": "%b", "kind": "one_off", "lines": [%b]}'
    draft = await post("", body % (ORGANIZATION_ID.encode(), line))
    assert (draft.status, draft.json["kind"], draft.json["status"]) == (200, "one_off", "draft")
    issued = await post(f"/{draft.json['id']}/issue")
    assert (issued.json["total_usd"], issued.json["status"]) == ("1.50", "open")
    told = (await office.own(f"{draft.json['id']}.json")).json
    assert told["number"] == issued.json["number"]
    assert (told["lines"][0]["description"], told["lines"][0]["unit_price_usd"]) == (
        *("Onboarding", "0.50"),
    )
    assert (await post("", body % (b"org_none", line))).status == 404
    free = line.replace(b"0.50", b"0.00")
    refused = await post("", body % (ORGANIZATION_ID.encode(), free))
    assert (refused.status, refused.json["error"]["param"]) == (400, "lines")
    assert (await post("")).status == 400


def rows(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode(), newline="")))


async def test_every_form_of_an_issued_invoice_is_kept_and_says_the_same(office: Office) -> None:
    told = await office.admin(f"{office.issued}.json")
    assert told.status == 200 and told.headers["content-type"] == "application/json"
    described = office.one.app.openapi()
    schema = described["components"]["schemas"]["InvoiceDocument"]
    Draft202012Validator(schema | {"components": described["components"]}).validate(told.json)
    assert told.json["number"].startswith("SLU-2026-") and not told.json["draft"]
    table = await office.admin(f"{office.issued}.csv")
    assert sum(int(row["amount_cents"]) for row in rows(table.body)) == told.json["total_cents"]
    pdf = await office.admin(f"{office.issued}.pdf")
    assert pdf.headers["content-type"] == "application/pdf" and pdf.body.startswith(b"%PDF")
    assert f'filename="{told.json["number"]}.pdf"' in pdf.headers["content-disposition"]
    for kind, first in (("json", told), ("csv", table), ("pdf", pdf)):
        again = await office.own(f"{office.issued}.{kind}")
        assert (again.status, again.body) == (200, first.body)
        assert again.headers["etag"] == first.headers["etag"]
        with office.one.parts.ledger.read() as conn:
            file = documents.kept(conn, office.issued, kind)
        assert file is not None and file.content == first.body
        assert first.headers["etag"] == f'"{file.sha256}"'


async def test_what_an_issued_invoice_says_outlives_a_change_of_its_buyer(office: Office) -> None:
    before = await office.admin(f"{office.issued}.json")
    with office.one.parts.ledger.write() as conn:
        conn.execute(text("UPDATE organization SET name = 'Renamed Inc.'"))
    assert (await office.admin(f"{office.issued}.json")).body == before.body
    assert b"Renamed" not in (await office.admin(f"{office.issued}.csv")).body
    assert before.json["buyer"]["name"] != "Renamed Inc."
    draft = (await office.admin(f"{office.draft}.json")).json
    assert draft["buyer"]["name"] == "Renamed Inc."


async def test_draft_has_all_but_an_e_invoice_and_is_kept_nowhere(office: Office) -> None:
    told = await office.own(f"{office.draft}.json")
    assert told.json["draft"] and told.json["number"] is None
    pdf = await office.own(f"{office.draft}.pdf")
    assert pdf.body.startswith(b"%PDF") and pdf.headers["cache-control"] == "private, no-store"
    xml = await office.own(f"{office.draft}.xml")
    assert (xml.status, xml.json["error"]["code"]) == (409, "invoice_not_issued")
    with office.one.parts.ledger.read() as conn:
        assert documents.kept(conn, office.draft, "pdf") is None
        assert documents.frozen(conn, office.draft) is None


async def test_e_invoice_that_lacks_a_seller_says_what_it_lacks(office: Office) -> None:
    xml = await office.admin(f"{office.issued}.xml?syntax=ubl&profile=xrechnung")
    assert (xml.status, xml.json["error"]["code"]) == (409, "e_invoice_incomplete")
    assert "the seller has no country" in xml.json["error"]["message"]
    wrong = await office.admin(f"{office.issued}.xml?syntax=edifact")
    assert wrong.status == 400


def frozen_with_parties(office: Office) -> Document:
    """What the invoice would say had its parties been known when it was issued."""
    made = document()
    store = office.one.parts.ledger
    with store.write() as conn:
        result = invoice_by_id(conn, office.issued, IN_NOVEMBER_US)
        assert result is not None
        return documents.freeze(conn, office.issued, made, IN_NOVEMBER_US)


@pytest.mark.parametrize("syntax", ["cii", "ubl"])
async def test_e_invoice_of_a_whole_document_passes_the_rules_and_is_kept(
    office: Office, syntax: str
) -> None:
    frozen_with_parties(office)
    first = await office.own(f"{office.issued}.xml?syntax={syntax}")
    assert first.status == 200 and first.headers["content-type"].startswith("application/xml")
    assert complaints(first.body, Syntax(syntax)) == []
    assert etree.fromstring(first.body) is not None
    assert (await office.admin(f"{office.issued}.xml?syntax={syntax}")).body == first.body


@pytest.mark.parametrize("kind", ["json", "csv", "pdf", "xml"])
async def test_invoice_of_another_is_not_there(office: Office, kind: str) -> None:
    for name in (office.foreign, "inv_none"):
        told = await office.own(f"{name}.{kind}")
        assert (told.status, told.json["error"]["code"]) == (404, "not_found")


async def test_tenant_lists_its_own_invoices_page_by_page(office: Office) -> None:
    path = "/v1/organization/invoices"
    first = (await office.get(f"{path}?limit=1", API_KEY)).json
    second = (await office.get(f"{path}?limit=1&after={first['after']}", API_KEY)).json
    listed = [entry["id"] for page in (first, second) for entry in page["data"]]
    assert listed == [office.issued, office.draft]
    assert first["has_more"] and not second["has_more"]


async def test_focus_of_a_month_sums_to_each_invoice(office: Office) -> None:
    told = await office.admin(f"focus.csv?period={OCTOBER}")
    assert told.headers["content-type"].startswith("text/csv")
    table = rows(told.body)
    assert {row["BillingAccountId"] for row in table} == {ORGANIZATION_ID, "org_other"}
    document = (await office.admin(f"{office.issued}.json")).json
    only = rows(
        (await office.admin(f"focus.csv?period={OCTOBER}&organization={ORGANIZATION_ID}")).body
    )
    assert {row["InvoiceId"] for row in only} == {document["number"]}
    billed = sum(round(float(row["BilledCost"]) * 100) for row in only)
    assert billed == document["due_cents"]
    wrong = await office.admin("focus.csv?period=October")
    assert (wrong.status, wrong.json["error"]["param"]) == (400, "period")
    assert rows((await office.admin("focus.csv?period=2019-01")).body) == []
