"""An invoice and a top-up in a real Chromium, by keyboard alone: they suit every eye and window."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect
from redis.asyncio import Redis

from billing.invoices import one_off
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.browser.axe import GRAVE, SCRIPT
from tests.browser.visit import SCHEMES, SOON_MS, chromium
from tests.gateway.edge import Edge, edge
from tests.gateway.served import served
from tests.redis_server import RedisServer

WIDTHS = (1440, 320)
"""The narrow one is 1280 pixels at 400 %."""


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


@pytest.fixture
async def page(one: Edge) -> AsyncIterator[Page]:
    """Signed in. It never complains, and asks no other origin for anything."""
    async with served(one.app) as base_url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium())
        context = await browser.new_context(base_url=base_url)
        context.set_default_timeout(SOON_MS)
        opened = await context.new_page()
        complaints: list[str] = []
        asked: list[str] = []
        opened.on("console", lambda said: complaints.append(f"{said.type} {said.text}"))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on("request", lambda request: asked.append(request.url))
        await opened.goto("/console/login")
        await opened.get_by_label("Admin key").fill("admin")
        await opened.get_by_label("Admin key").press("Enter")
        await opened.wait_for_url("**/console")
        yield opened
        await browser.close()
    assert [each for each in complaints if "status of 4" not in each] == []
    assert all(url.startswith(base_url) for url in asked)


async def look_over(page: Page) -> None:
    """In both themes and at both widths: axe finds nothing grave, and nothing is too wide."""
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            await page.evaluate(SCRIPT.read_text("utf-8"))
            found = (await page.evaluate("axe.run()"))["violations"]
            grave = [each["id"] for each in found if each["impact"] in GRAVE]
            wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert (grave, max(0, wider)) == ([], 0), (scheme, width)
    await page.set_viewport_size({"width": WIDTHS[0], "height": 900})


async def act(page: Page, title: str, **fields: str) -> None:
    """Open an action, fill it in, tick its box and send it, with keys."""
    summary = page.locator("summary", has_text=re.compile(f"^{title}$"))
    form = page.locator("details.act", has=summary)
    if await form.get_attribute("open") is None:
        await form.locator("summary").press("Enter")
    for name, value in fields.items():
        await form.locator(f"[name={name}]").fill(value)
    await form.get_by_role("checkbox").press("Space")
    await form.get_by_role("button").press("Enter")


async def test_invoice_is_paid_and_a_top_up_refunded_by_keyboard(one: Edge, page: Page) -> None:
    now_us = round(one.parts.outside.clock() * 1e6)
    items = [one_off.Item("Onboarding", 4, 25 * 10**9)]
    draft = one_off.draft(one.parts.ledger, ORGANIZATION_ID, items, now_us=now_us).invoice
    await page.goto(f"/console/invoices/{draft['invoice_id']}")
    await act(page, "Hold back", reason="ask first")
    await expect(page.get_by_text("It is held back: ask first.")).to_be_visible()
    await look_over(page)
    await act(page, "Issue")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("open")
    await act(page, "Pay", amount_usd="0.001", external_id="wire-1")
    await expect(page.get_by_role("alert")).to_be_visible()
    await act(page, "Pay", amount_usd="60.00", external_id="wire-1")
    history = page.get_by_role("region", name="History")
    await expect(history).to_contain_text("wire-1")
    async with page.expect_download() as file:
        await page.get_by_role("link", name="CSV").press("Enter")
    assert (await file.value).suggested_filename.startswith("SLU-")
    await look_over(page)
    await page.get_by_role("link", name="Its top-ups").press("Enter")
    await act(page, "Top up by hand", amount_usd="50.00", external_id="wire-2")
    await expect(page.get_by_role("row", name="wire-2")).to_contain_text("SLU-RC-")
    await act(page, "Refund", amount_usd="20.00", external_id="r-1", reason="left")
    await expect(page.get_by_role("row", name="wire-2")).to_contain_text("30.00")
    await page.locator("summary").first.press("Enter")
    await look_over(page)
