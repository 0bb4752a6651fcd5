"""The console as a person meets it: a real Chromium, the real stack, nothing in between."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import serious
from tests.browser.conftest import Open
from tests.journeys.calls import CHAT, NAP, SMALL, body
from tests.stack import Stack, Tenant

expect.set_options(timeout=15_000)

SCALE_MS = 60_000
UNDER_WAY = re.compile("STARTING|WARM")
"""The page asks once a second, and a start may be shorter."""
HOSTILE = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>"


@pytest.fixture
def tenant(stack: Stack) -> Tenant:
    return stack.tenant()


def ask(stack: Stack, tenant: Tenant, model: str = SMALL) -> str:
    """One call through the API; its request id."""
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body(model, max_tokens=12))
    assert response.status_code == 200, response.text
    request_id: str = response.headers["x-request-id"]
    return request_id


def background(page: Page) -> str:
    found: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return found


def test_wrong_key_is_refused_and_the_right_one_opens(stack: Stack, visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    page.goto("/console")
    expect(page.get_by_label("Admin key")).to_be_focused()
    visitor.shoot("login-light")
    page.get_by_label("Admin key").fill("sk-not-it")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("That is not the admin key.")
    visitor.forgive("status of 401")
    page.get_by_label("Admin key").fill(stack.ready["admin_key"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Pools")).to_be_visible()
    (cookie,) = visitor.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/console")
    assert stack.ready["admin_key"] not in cookie["value"]


def test_signing_out_closes_the_console(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin key")).to_be_visible()
    page.goto("/console")
    expect(page.get_by_label("Admin key")).to_be_visible()


def test_ready_file_names_the_console(stack: Stack) -> None:
    assert stack.ready["console_url"] == f"{stack.base_url}/console"


def test_pools_stand_there_with_states_reasons_and_prices(stack: Stack, page: Page) -> None:
    for name in stack.fleet():
        pool = page.locator(f"#pool-{name}")
        expect(pool.get_by_role("heading", name=name)).to_be_visible()
        expect(pool.locator(".reason")).not_to_be_empty()
    warm = page.locator("#pool-small-reserved")
    expect(warm.locator(".title .state")).to_have_text("WARM")
    expect(warm).to_contain_text("of 16 slots")
    expect(warm).to_contain_text("0.072")  # 20,000 nano-USD a second


def test_call_appears_by_itself_and_is_explained(stack: Stack, tenant: Tenant, visit: Open) -> None:
    visitor = visit()
    page = visitor.sign_in()
    page.evaluate("window.sameVisit = true")
    request_id = ask(stack, tenant)
    row = page.locator(f"#{request_id}")
    expect(row).to_contain_text("answered")
    expect(row).to_contain_text(SMALL)
    assert page.evaluate("window.sameVisit"), "the page was not loaded again"
    visitor.shoot("busy-light")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(request_id)
    explained = stack.generation(request_id)
    expect(page.locator(".call .tiles")).to_contain_text(explained["cost_usd"])
    served = page.locator("table.candidates tr.served")
    expect(served).to_contain_text(explained["pool"])
    expect(page.locator("table.candidates tbody tr")).to_have_count(len(explained["candidates"]))
    expect(page.locator(".timeline rect")).not_to_have_count(0)
    expect(page.get_by_role("main")).to_contain_text(explained["price_version"])
    expect(page.get_by_role("main")).to_contain_text(explained["transfers"][0]["transfer_id"])
    visitor.shoot("explain-light")


def test_spend_of_an_organization_is_found_and_exact(
    stack: Stack, tenant: Tenant, page: Page
) -> None:
    """Of many organizations only the dearest are listed: a small one is looked for."""
    total = stack.generation(ask(stack, tenant))["cost_usd"]
    page.get_by_label("Organization", exact=True).fill(tenant.organization)
    page.get_by_role("button", name="Find").click()
    expect(page.locator("table.spend tbody tr")).to_have_count(2)
    row = page.locator(f"#spend-{tenant.organization}")
    shown = f"{total}{'0' * (9 - len(total.partition('.')[2]))}"
    expect(row.locator("td").last).to_have_text(shown)


def test_scaling_up_from_zero_is_watched_live(stack: Stack, tenant: Tenant, visit: Open) -> None:
    visitor = visit(scheme="dark")
    page = visitor.sign_in()
    pool = page.locator("#pool-nap")
    expect(pool).to_have_attribute("data-state", "COLD", timeout=SCALE_MS)
    with ThreadPoolExecutor(1) as elsewhere:
        asked = elsewhere.submit(ask, stack, tenant, NAP)
        expect(pool).to_have_attribute("data-state", UNDER_WAY, timeout=SCALE_MS)
        expect(page.locator("#news")).to_contain_text("nap is ")
        visitor.shoot("scale-up-dark")
        expect(pool).to_have_attribute("data-state", "WARM", timeout=SCALE_MS)
        expect(page.locator(f"#{asked.result(60)}")).to_be_visible()
    visitor.shoot("busy-dark")
    stack.generation(asked.result())
    page.goto(f"/console/calls/{asked.result()}")
    expect(page.get_by_role("main")).to_contain_text("While it waited for nap")
    visitor.look_over("call-that-waited")


def test_refused_call_is_found_and_explained(stack: Stack, visit: Open) -> None:
    tenant = stack.tenant(requests_per_minute=1)
    ask(stack, tenant)
    refused = stack.call("POST", CHAT, secret=tenant.secret, json=body(SMALL))
    assert refused.status_code == 429
    rid = refused.headers["x-request-id"]
    assert stack.generation(rid)["status"] == "refused"
    visitor = visit()
    page = visitor.sign_in()
    visitor.look_over("overview")
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("heading", name="Zones and markets")).to_be_visible()
    visitor.look_over("fleet")
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("main").get_by_role("link", name="Refused calls").click()
    page.get_by_label("Organization").fill(tenant.organization)
    page.get_by_label("Reason").select_option("limit")
    page.get_by_role("button", name="Find").click()
    row = page.locator(f"#{rid}")
    expect(row).to_contain_text("rate_limit_exceeded")
    visitor.look_over("refusals")
    row.get_by_role("link", name="req_").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("refused")
    expect(page.locator("table.candidates tbody tr")).not_to_have_count(0)
    visitor.look_over("call-that-was-refused")


def test_theme_follows_the_system_until_it_is_chosen(visit: Open) -> None:
    dark, light = visit(scheme="dark"), visit(scheme="light")
    dark.page.goto("/console")
    dark.shoot("login-dark")
    page = light.sign_in()
    by_day, by_night = background(page), background(dark.page)
    assert by_day != by_night
    switch = page.get_by_role("button", name="Theme")
    for _ in range(2):
        switch.click()
    expect(switch).to_have_text("Theme: dark")
    assert background(page) == by_night
    page.reload()
    assert background(page) == by_night


def test_page_keeps_focus_and_place_while_it_changes(
    stack: Stack, tenant: Tenant, page: Page
) -> None:
    request_id = ask(stack, tenant)
    link = page.locator(f"#{request_id}").get_by_role("link")
    link.focus()
    before = page.evaluate("scrollY")
    seen = page.locator("#pools-title + p time").text_content()
    expect(page.locator("#pools-title + p time")).not_to_have_text(seen or "")
    expect(link).to_be_focused()
    assert page.evaluate("scrollY") == before


def test_lost_gateway_is_said_and_found_again(visit: Open) -> None:
    visitor = visit()
    page = visitor.sign_in()
    status = page.get_by_role("status")
    expect(status).to_have_text("Live")
    visitor.context.set_offline(True)
    expect(status).to_have_text("Connection lost, trying again")
    visitor.shoot("lost-light")
    visitor.context.set_offline(False)
    expect(status).to_have_text("Live")
    visitor.forgive("ERR_INTERNET_DISCONNECTED")


def test_hidden_tab_asks_for_nothing(page: Page) -> None:
    asked: list[str] = []
    page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { get: () => window.away });
            window.away = true;
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    expect(page.get_by_role("status")).to_have_text("Paused")
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2_500)
    assert asked == []
    page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("status")).to_have_text("Live")


def test_hostile_names_are_text(stack: Stack, visit: Open) -> None:
    organization = stack.admin("POST", "/organizations", {"name": HOSTILE, "slug": "hostile"})["id"]
    project = stack.admin("POST", "/projects", {"organization": organization, "name": HOSTILE})
    key = stack.admin("POST", "/keys", {"project": project["id"], "name": HOSTILE})
    request_id = ask(stack, Tenant(organization, project["id"], key["id"], key["secret"]))
    page = visit().sign_in()
    expect(page.locator(f"#{request_id}")).to_contain_text(HOSTILE)
    page.get_by_label("Organization", exact=True).fill(HOSTILE)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Organization", exact=True)).to_have_value(HOSTILE)
    expect(page.locator(f"#spend-{organization}")).to_contain_text(HOSTILE)
    page.goto(f"/console/calls/{request_id}")
    expect(page.locator(".facts")).to_contain_text(HOSTILE)
    assert page.locator("main img, main script").count() == 0


def test_everything_fits_a_phone(stack: Stack, tenant: Tenant, visit: Open) -> None:
    request_id = ask(stack, tenant)
    stack.generation(request_id)
    visitor = visit(width=390, height=844, scheme="dark")
    visitor.page.goto("/console")
    assert visitor.overflow_px() == 0
    page = visitor.sign_in()
    expect(page.locator(f"#{request_id}")).to_be_visible()
    assert visitor.overflow_px() == 0
    visitor.shoot("phone-dark")
    page.goto(f"/console/calls/{request_id}")
    assert visitor.overflow_px() == 0
    visitor.shoot("phone-explain-dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(stack: Stack, tenant: Tenant, visit: Open, scheme: str) -> None:
    request_id = ask(stack, tenant)
    stack.generation(request_id)
    page = visit(scheme=scheme).page
    page.goto("/console")
    assert serious(page) == []
    signed_in = visit(scheme=scheme).sign_in()
    policies = ("/policies", "/policies/1", "/policies/edit")
    for path in (
        "",
        f"/calls/{request_id}",
        "/catalogue",
        "/providers",
        "/invoices",
        "/refusals",
        *policies,
    ):
        signed_in.goto(f"/console{path}")
        assert serious(signed_in) == [], path


def test_catalogue_is_two_clicks_away_and_fits_a_phone(visit: Open) -> None:
    visitor = visit(width=390, height=844)
    page = visitor.sign_in()
    page.get_by_role("link", name="Catalogue").click()
    expect(page.get_by_role("link", name="Catalogue")).to_have_attribute("aria-current", "page")
    expect(page.locator(f"#model-{SMALL}")).to_contain_text("chat")
    expect(page.locator("#pool-small-reserved")).to_contain_text("0.072")
    expect(page.locator("#hardware-h100")).to_contain_text("3,350")
    assert visitor.overflow_px() == 0
    visitor.shoot("phone-catalogue-light")


def test_provider_is_shown_and_tested(stack: Stack, visit: Open) -> None:
    pool = {
        **{"model": SMALL, "capacity_class": "external", "upstream_model": "big-1"},
        **{"base_url": "http://127.0.0.1:9/v1", "provider": "acme", "cost_input_usd_per_mtok": "1"},
    }
    keys = [{"name": f"SLUICE_PROVIDER_KEY_ACME_{n}", "share": n} for n in (1, 2)]
    rate = {"model": "big-1", "input_usd_per_mtok": "2", "output_usd_per_mtok": "8"}
    bill = "day,model,usage_class,quantity,amount\n2026-11-02,big-1,input,1200000,2.40\n"
    lists = "/providers/acme/price-lists"
    stack.admin("PUT", "/providers/acme", {"keys": keys})
    stack.admin("PUT", "/pools/outside-acme", pool)
    stack.admin("POST", lists, {"from": "2026-01-01T00:00:00Z", "rates": [rate]})
    stack.admin("POST", f"{lists}/1/approve", {})
    stack.admin("POST", "/providers/acme/reconciliations", {"file": bill})
    visitor = visit()
    page = visitor.sign_in()
    page.get_by_role("link", name="Providers").click()
    row = page.locator("#provider-acme")
    expect(row).to_contain_text("SLUICE_PROVIDER_KEY_ACME_2")
    expect(row).to_contain_text("Price list 1")
    page.get_by_role("button", name="Test acme").click()
    expect(page.get_by_role("alert")).to_contain_text("It does not work")
    assert serious(page) == []
    assert visitor.overflow_px() == 0
    visitor.shoot("providers-light")
    stack.admin("DELETE", "/pools/outside-acme")
    stack.admin("DELETE", "/providers/acme")


def act(page: Page, title: str, **fields: str) -> None:
    """Open an action, fill it in, tick its box and send it."""
    summary = page.locator("summary", has_text=re.compile(f"^{title}$"))
    form = page.locator("details.act", has=summary)
    form.locator("summary").click()
    for name, value in fields.items():
        form.locator(f"[name={name}]").fill(value)
    form.get_by_role("checkbox").check()
    form.get_by_role("button").click()


@pytest.mark.parametrize("width", [1440, 400])
def test_invoice_is_found_issued_and_paid(stack: Stack, visit: Open, width: int) -> None:
    item = {"description": "Onboarding", "quantity": 2, "unit_price_usd": "59.25"}
    body = {"organization": "org_default", "kind": "one_off", "lines": [item]}
    draft = stack.admin("POST", "/invoices", body)
    visitor = visit(width=width, scheme="light" if width == 1440 else "dark")
    page = visitor.sign_in()
    page.goto(f"/console/invoices?period={draft['period']}")
    assert serious(page) == []
    assert visitor.overflow_px() == 0
    visitor.shoot(f"invoices-{width}")
    page.get_by_role("link", name=draft["id"]).click()
    act(page, "Issue")
    act(page, "Pay", amount_usd="100.00", external_id=f"wire-{width}")
    expect(page.locator("main")).to_contain_text("18.50")
    assert serious(page) == []
    assert visitor.overflow_px() == 0
    visitor.shoot(f"invoice-{width}")


def test_console_works_without_scripts(stack: Stack, tenant: Tenant, visit: Open) -> None:
    request_id = ask(stack, tenant)
    stack.generation(request_id)
    page = visit(scripts=False).sign_in()
    expect(page.locator("#pool-small-reserved")).to_contain_text("WARM")
    page.locator(f"#{request_id}").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(request_id)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin key")).to_be_visible()


def test_keyboard_and_screen_reader_find_their_way(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(page.get_by_role("banner")).to_have_count(1)
    titles = page.get_by_role("heading", level=2).all_text_contents()
    assert {"Pools", "Spend", "Last calls"} <= set(titles)
    for table in page.get_by_role("table").all():
        assert table.get_by_role("columnheader").count() > 3
    assert page.locator("svg:not([aria-label]), img:not([alt])").count() == 0
    assert all(button.text_content() for button in page.get_by_role("button").all())
    assert re.match(r"Console", page.title())


def test_description_of_the_api_is_a_page_that_runs_our_own_files_alone(visit: Open) -> None:
    """The law of a visit: no breach of the policy, and nothing asked of another origin."""
    page = visit().sign_in()
    page.goto(urljoin(page.url, "/docs"))
    expect(page.locator(".opblock").first).to_be_visible(timeout=60_000)
    expect(page.get_by_text("/v1/chat/completions").first).to_be_visible()
