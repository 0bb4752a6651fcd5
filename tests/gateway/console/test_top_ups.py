"""Top-ups in the console: by hand, with a receipt, and given back as the admin API does it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.console.pages.top_ups import page as top_ups
from tests.gateway.console.test_pages import HOSTILE, browser, sign_in
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

HOME = "/console/top-ups"
OF_ORG = f"{HOME}?organization={ORGANIZATION_ID}"
SURE = {"sure": "yes"}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def test_money_becomes_credit_with_a_receipt_and_goes_back(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = SURE | {"organization": ORGANIZATION_ID, "amount_usd": "50.00", "note": HOSTILE}
    async with browser(one) as client:
        for path in (HOME, f"{HOME}/by-hand", f"{HOME}/top_1/refund"):
            method = "GET" if path == HOME else "POST"
            told = await client.request(method, path)
            assert told.headers["location"].startswith("/console/login")
        await sign_in(client)
        assert "Nobody has topped up yet." in (await client.get(HOME)).text
        for name in ("wire-1", "wire-1", "wire-2"):
            sent = await client.post(f"{HOME}/by-hand", data=came | {"external_id": name})
            assert (sent.status_code, sent.headers["location"]) == (303, OF_ORG)
        text = (await client.get(OF_ORG)).text
        first, second = re.findall(r'<tr role="row" id="(top_[^"]+)"', text)
        assert "SLU-RC-" in text and HOSTILE not in text and "wire-2" in text
        assert "No such top-up" in (await client.get(f"{HOME}?organization=org_x")).text
        receipt = await client.get(f"/console/invoices/{first}/files/json")
        assert (receipt.status_code, receipt.json()["kind"]) == (200, "receipt")
        back = SURE | {"external_id": "r-1", "reason": "left"}
        part = back | {"amount_usd": "20.00"}
        at = f"{HOME}/{first}/refund?organization={ORGANIZATION_ID}"
        assert (await client.post(at, data=part)).headers["location"] == OF_ORG
        text = (await client.get(OF_ORG)).text
        assert ">30.00<" in text and ">20.00<" in text
        assert (await client.post(at, data=back | {"external_id": "r-2"})).status_code == 303
        text = (await client.get(OF_ORG)).text
        assert "nothing is left" in text and f"{first}/refund" not in text
        monkeypatch.setattr(top_ups, "ROWS", 1)
        text = (await client.get(HOME)).text
        later = re.search(r'href="([^"]+)">Later top-ups', text)
        assert later is not None and first in text and second not in text
        text = (await client.get(later[1].replace("&amp;", "&"))).text
        assert second in text and first not in text and "Later top-ups" not in text
        assert (await client.get(f"{HOME}?after=x")).status_code == 303


async def test_what_the_api_refuses_is_said_and_changes_nothing(one: Edge) -> None:
    came = {"organization": ORGANIZATION_ID, "amount_usd": "50.00", "external_id": "w"}
    async with browser(one) as client:
        await sign_in(client)
        assert (await client.post(f"{HOME}/by-hand", data=came | SURE)).status_code == 303
        (top_up,) = re.findall(r'<tr role="row" id="(top_[^"]+)"', (await client.get(HOME)).text)
        refund = {"external_id": "r", "reason": "kept in the form"}
        for path, form, status in (
            ("by-hand", came, 400),
            ("by-hand", SURE | came | {"amount_usd": "51.00"}, 409),
            ("by-hand", SURE | came | {"amount_usd": "0.001"}, 400),
            ("by-hand", SURE | came | {"organization": "org_none"}, 404),
            (f"{top_up}/refund", refund, 400),
            (f"{top_up}/refund", SURE | refund | {"amount_usd": "50.01"}, 409),
            ("top_none/refund", SURE | refund, 404),
        ):
            told = await client.post(f"{HOME}/{path}", data=form)
            assert (told.status_code, 'role="alert"' in told.text) == (status, True), (path, form)
            if path.startswith(top_up):
                assert 'value="kept in the form"' in told.text
        foreign = {"sec-fetch-site": "cross-site"}
        sent = SURE | refund
        assert (
            await client.post(f"{HOME}/{top_up}/refund", data=sent, headers=foreign)
        ).status_code == 303
        assert ">50.00<" in (await client.get(HOME)).text
