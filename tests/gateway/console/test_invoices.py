"""Invoices in the console: found by month and status, and changed as the admin API changes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.invoices import one_off
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.gateway.console.test_pages import HOSTILE, browser, sign_in
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

HOME = "/console/invoices"


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
    async with browser(one) as client:
        for path in (HOME, at):
            assert (await client.get(path)).status_code != 200, "nobody has signed in"
        await sign_in(client)
        assert "No such invoice" in (await client.get(HOME)).text, "it is of this month"
        month = f"{HOME}?period={invoice['period']}"
        assert at in (await client.get(month)).text
        assert at in (await client.get(f"{month}&status=draft")).text
        assert at not in (await client.get(f"{month}&status=open")).text
        assert at not in (await client.get(f"{month}&organization=org_x")).text
        page = (await client.get(at)).text
        assert "nobody has issued it yet" in page and HOSTILE not in page
        assert (await client.post(f"{at}/approve")).status_code == 303
        assert (await client.post(f"{at}/issue")).status_code == 303
        paid = {"amount_usd": "60.00", "external_id": "wire-1"}
        assert (await client.post(f"{at}/pay", data=paid)).status_code == 303
        credited = {"amount_usd": "15.00", "external_id": "c-1", "reason": "late"}
        assert (await client.post(f"{at}/credit", data=credited)).status_code == 303
        page = (await client.get(at)).text
        assert "SLU-" in page and "wire-1" in page and ">25.00<" in page
        assert "/void" not in page, "a credited invoice is not voided"


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
            ("credit", {"amount_usd": "1.00", "external_id": "c", "reason": "a"}, 409),
            ("melt", {}, 404),
        ):
            told = await client.post(f"{at}/{action}", data=form)
            assert (told.status_code, 'role="alert"' in told.text) == (status, True), action
        foreign = {"sec-fetch-site": "cross-site"}
        assert (await client.post(f"{at}/issue", headers=foreign)).status_code == 303
        assert "nobody has issued it yet" in (await client.get(at)).text
        assert (await client.get(f"{HOME}/inv_none")).status_code == 404
