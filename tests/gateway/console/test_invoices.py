"""Invoices in the console: found by month and status, and changed as the admin API changes them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.invoices import one_off
from billing.parties import store as parties
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.billing.taxes.test_tax_rule import SELLER
from tests.gateway.admin.test_exchange_rates import BODY, ONE_OFF, day
from tests.gateway.admin.test_parties import OF_ORGANIZATION, PROFILE, RULE, asked
from tests.gateway.admin.test_parties import SELLER as PARTY
from tests.gateway.console.test_pages import HOSTILE, browser, sign_in
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

HOME = "/console/invoices"
SURE = {"sure": "yes"}
OFFERED = re.compile(r'action="/console/invoices/[^/]+/([a-z-]+)"')


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


@pytest.fixture
def invoice(one: Edge) -> dict[str, Any]:
    """A draft of 100.00 USD."""
    now_us = round(one.parts.outside.clock() * 1e6)
    items = [one_off.Item(HOSTILE, 4, 25 * 10**9)]
    return one_off.draft(one.parts.ledger, ORGANIZATION_ID, items, now_us=now_us).invoice


async def test_draft_is_found_issued_paid_credited_and_said_so(
    one: Edge, invoice: dict[str, Any]
) -> None:
    at = f"{HOME}/{invoice['invoice_id']}"

    async def shown(client: Any) -> tuple[str, list[str]]:
        text = (await client.get(at)).text
        return text, OFFERED.findall(text)

    async with browser(one) as client:
        for path in (HOME, at, f"{at}/files/pdf"):
            assert (await client.get(path)).status_code != 200, "nobody has signed in"
        await sign_in(client)
        assert "No such invoice" in (await client.get(HOME)).text, "it is of this month"
        month = f"{HOME}?period={invoice['period']}"
        assert at in (await client.get(month)).text
        assert at in (await client.get(f"{month}&status=draft")).text
        assert at not in (await client.get(f"{month}&status=open")).text
        assert at not in (await client.get(f"{month}&organization=org_x")).text
        page, offered = await shown(client)
        assert "Draft written" in page and HOSTILE not in page
        assert offered == ["approve", "issue", "hold"]
        held = SURE | {"reason": "ask first"}
        assert (await client.post(f"{at}/hold", data=held)).status_code == 303
        page, offered = await shown(client)
        assert "It is held back: ask first" in page and "approve it" in page
        for action, form in (
            ("approve", {}),
            ("issue", {}),
            ("pay", {"amount_usd": "60.00", "external_id": "wire-1"}),
            ("credit", {"amount_usd": "15.00", "external_id": "c-1", "reason": "late"}),
        ):
            assert (await client.post(f"{at}/{action}", data=form | SURE)).status_code == 303
        page, offered = await shown(client)
        assert "SLU-" in page and "wire-1" in page and ">25.00<" in page
        assert offered == ["pay", "credit", "uncollectible"], "a credited one is not voided"
        order = [
            page.index(words) for words in ("Issued as", "Payment</span>", "Credit note</span>")
        ]
        assert order == sorted(order), "its history"
        note = re.search(r'id="(crn_[^"]+)"', page)
        assert note is not None and f"{HOME}/{note[1]}/files/pdf" in page
        await client.post(f"{at}/uncollectible", data=SURE | {"reason": "gone"})
        page, offered = await shown(client)
        assert ("Written off" in page, offered) == (True, [])


async def test_files_are_those_of_the_admin_api(one: Edge, invoice: dict[str, Any]) -> None:
    at = f"{HOME}/{invoice['invoice_id']}"
    async with browser(one) as client:
        await sign_in(client)
        refused = await client.get(f"{at}/files/xml")
        assert (refused.status_code, "has no number" in refused.text) == (409, True)
        await client.post(f"{at}/issue", data=SURE)
        key = {"authorization": "Bearer admin"}
        for kind in ("csv", "json"):
            file = await client.get(f"{at}/files/{kind}")
            same = await client.get(
                f"/admin/v1/invoices/{invoice['invoice_id']}.{kind}", headers=key
            )
            assert (file.status_code, file.content) == (200, same.content)
            assert file.headers["content-disposition"].startswith("attachment")
            assert "default-src 'none'" in file.headers["content-security-policy"]
        focus = f"{HOME}/focus.csv?period={invoice['period']}"
        assert "InvoiceId" in (await client.get(focus)).text
        assert (await client.get(f"{HOME}/focus.csv?period=x")).status_code == 400
        unknown = await client.get(f"{HOME}/inv_none/files/csv")
        assert (unknown.status_code, "inv_none" in unknown.text) == (404, True)


async def test_what_the_api_refuses_is_said_and_changes_nothing(
    one: Edge, invoice: dict[str, Any]
) -> None:
    at = f"{HOME}/{invoice['invoice_id']}"
    async with browser(one) as client:
        assert (await client.post(f"{at}/issue")).status_code != 200
        await sign_in(client)
        for action, form, status in (
            ("pay", {"amount_usd": "1.00", "external_id": "w"}, 409),
            ("pay", {"amount_usd": "x", "external_id": "w"}, 400),
            ("void", {}, 400),
            ("void", {"reason": "a"}, 409),
            ("uncollectible", {"reason": "a"}, 409),
            ("credit", {"amount_usd": "1.00", "external_id": "c", "reason": "a"}, 409),
            ("melt", {}, 404),
        ):
            told = await client.post(f"{at}/{action}", data=form | SURE)
            assert (told.status_code, 'role="alert"' in told.text) == (status, True), action
        unsure = await client.post(f"{at}/hold", data={"reason": "kept in the form"})
        assert (unsure.status_code, "tick the box" in unsure.text) == (400, True)
        assert 'value="kept in the form"' in unsure.text and "<details" in unsure.text
        foreign = {"sec-fetch-site": "cross-site"}
        sent = await client.post(f"{at}/issue", headers=foreign, data=SURE)
        assert sent.status_code == 303
        assert "Draft written" in (await client.get(at)).text
        assert (await client.get(f"{HOME}/inv_none")).status_code == 404
        parties.put_seller(one.parts.ledger, SELLER, 1)
        lacking = (await client.get(at)).text
        assert f"PUT /admin/v1/organizations/{ORGANIZATION_ID}/billing-profile" in lacking
        assert OFFERED.findall(lacking) == ["approve", "hold"], "no approval clears that"


async def test_other_currency_is_shown_lacking_and_paid_in(one: Edge) -> None:
    for path, body in (
        ("/sellers/main", PARTY | {"tax_currency": "EUR"}),
        (OF_ORGANIZATION, PROFILE),
        ("/tax-rules/de", RULE | {"rate": "19"}),
    ):
        assert (await asked(one, "PUT", path, body))[0] == 200
    _, draft = await asked(one, "POST", "/invoices", ONE_OFF)
    at = f"{HOME}/{draft['id']}"
    async with browser(one) as client:
        await sign_in(client)
        page = (await client.get(at)).text
        assert "PUT /admin/v1/exchange-rates/{currency}/{date}" in page
        assert OFFERED.findall(page) == ["approve", "hold"]
        await asked(one, "PUT", f"/exchange-rates/EUR/{day(one)}", BODY)
        await client.post(f"{at}/issue", data=SURE)
        page = (await client.get(at)).text
        assert "In EUR: tax 17.58, total 110.08, due 110.08, at 0.925" in page
        paid = SURE | {"amount": "10.08", "external_id": "sepa-1"}
        assert (await client.post(f"{at}/pay-converted", data=paid)).status_code == 303
        page = (await client.get(at)).text
        assert "due 100.00, at" in page and ">10.08 EUR<" in page
