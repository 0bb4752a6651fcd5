"""The console over HTTP, in this process: who gets in, what responses carry, what is shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from time import time
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from billing.db.engine import open_store
from billing.prices.versions import put_into_force
from gateway.admin.keys.service import KeyService
from gateway.admin.organizations.service import OrganizationService
from gateway.admin.use_cases import admin_store
from gateway.console import login, session
from gateway.console.login_attempts import TRIES_MAX
from gateway.console.render import FOLDER, POLICY
from gateway.console.signed_out import ENDED_KEY
from routing.health.failures import FailureKind
from tests.billing.conftest import RATES
from tests.billing.invoices.test_invoices import book, call
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
ADMIN_KEY = "admin"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What slows a guesser down would slow these tests down."""
    monkeypatch.setattr(login, "WRONG_KEY_DELAY_S", 0.0)


@pytest.fixture
async def running(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as opened:
        yield opened


def browser(running: Edge, base_url: str = "http://console.test", **options: Any) -> Any:
    """A client with a cookie jar, as a browser has one; redirects are left to the test."""
    transport = httpx.ASGITransport(app=running.app)
    return httpx.AsyncClient(transport=transport, base_url=base_url, **options)


async def sign_in(client: Any, key: str = ADMIN_KEY, **headers: str) -> Any:
    return await client.post("/console/login", data={"key": key}, headers=headers)


async def test_stranger_is_led_to_the_door_and_sees_nothing_else(running: Edge) -> None:
    async with browser(running) as client:
        for path in ("/console", "/console/calls/req_1"):
            answer = await client.get(path)
            assert (answer.status_code, answer.text) == (303, "")
            assert answer.headers["location"].startswith("/console/login")
        fragment = await client.get("/console/live")
        assert (fragment.status_code, fragment.text) == (401, "")
        door = await client.get("/console/login?next=/console/calls/req_1")
        assert 'value="/console/calls/req_1"' in door.text
        assert "tale" not in door.text


async def test_admin_key_opens_and_signing_out_closes(running: Edge) -> None:
    async with browser(running) as client:
        answer = await sign_in(client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")
        cookie = answer.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/console"} <= set(cookie.split("; "))
        assert "secure" not in cookie
        assert ADMIN_KEY not in client.cookies[session.COOKIE]
        page = await client.get("/console")
        assert (page.status_code, "tale-reserved" in page.text) == (200, True)
        assert (await client.get("/console/login")).headers["location"] == "/console"
        assert (await client.post("/console/logout")).headers["location"] == "/console/login"
        assert (await client.get("/console")).status_code == 303


async def test_cookie_that_was_kept_opens_nothing_after_signing_out(running: Edge) -> None:
    async with browser(running) as client, browser(running) as thief, browser(running) as other:
        await sign_in(client)
        await sign_in(other)
        thief.cookies = client.cookies.__class__(client.cookies)
        assert (await thief.get("/console")).status_code == 200
        await client.post("/console/logout")
        assert (await thief.get("/console")).status_code == 303
        assert (await other.get("/console")).status_code == 200, "sessions end one by one"
        [key] = await running.redis.keys(f"{ENDED_KEY}*")
        assert 0 < await running.redis.ttl(key) <= session.LIFETIME_S


async def test_console_with_a_slash_too_many_is_the_console(running: Edge) -> None:
    async with browser(running) as client:
        assert (await client.get("/console/")).headers["location"] == "/console"


async def test_cookie_is_secure_where_the_request_was(running: Edge) -> None:
    async with browser(running, "https://console.test") as client:
        assert "; secure" in (await sign_in(client)).headers["set-cookie"].lower()


async def test_wrong_key_is_told_so_and_gets_no_cookie(running: Edge) -> None:
    async with browser(running) as client:
        answer = await sign_in(client, "Admin")
        assert answer.status_code == 401
        assert "That is not the admin key." in answer.text
        assert "set-cookie" not in answer.headers


async def test_guessing_is_slowed_down_even_for_the_right_key(running: Edge) -> None:
    async with browser(running) as client:
        found = await asyncio.gather(*(sign_in(client, f"key{n}") for n in range(TRIES_MAX + 3)))
        statuses = sorted(answer.status_code for answer in found)
        assert statuses == [401] * TRIES_MAX + [429] * 3
        blocked = await sign_in(client)
        assert blocked.status_code == 429
        assert 0 < int(blocked.headers["retry-after"]) <= 13


async def test_address_is_the_connections_whatever_a_stranger_says(running: Edge) -> None:
    """One who named another address with each guess was slowed down by nothing."""
    async with browser(running) as client:
        guesses = [
            await sign_in(client, f"key{n}", **{"x-forwarded-for": f"1.1.1.{n}"})
            for n in range(TRIES_MAX + 1)
        ]
        assert guesses[-1].status_code == 429
        told = await sign_in(client, **{"x-forwarded-proto": "https"})
        assert told.status_code == 429


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.test"},
        {"origin": "null"},
    ],
    ids=str,
)
async def test_form_of_another_site_changes_nothing(running: Edge, headers: dict[str, str]) -> None:
    async with browser(running) as client:
        assert (await sign_in(client, **headers)).status_code == 403
        await sign_in(client, origin="http://console.test")
        await client.post("/console/logout", headers=headers)
        assert (await client.get("/console")).status_code == 200


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.test", "//evil.test", "/console/../v1", "/console/calls/a\nb"]
)
async def test_door_leads_nowhere_else(running: Edge, elsewhere: str) -> None:
    async with browser(running) as client:
        given = {"key": ADMIN_KEY, "next": elsewhere}
        answer = await client.post("/console/login", data=given)
        assert answer.headers["location"] == "/console"


@pytest.mark.parametrize(
    "body",
    [b"\xff=%", b"key=" + b"k" * 5000, b"&".join([b"key=a"] * 9)],
    ids=["no text", "too long", "too many fields"],
)
async def test_odd_form_is_a_wrong_key(running: Edge, body: bytes) -> None:
    async with browser(running) as client:
        assert (await client.post("/console/login", content=body)).status_code == 401


async def test_without_an_admin_key_the_door_says_so(running: Edge) -> None:
    parts = running.app.state.parts
    settings = parts.settings.model_copy(update={"admin_key": None})
    object.__setattr__(parts, "settings", settings)
    async with browser(running) as client:
        assert "No admin key is configured" in (await client.get("/console/login")).text
        assert (await sign_in(client, "")).status_code == 401
        assert (await client.get("/console")).status_code == 303


async def test_every_response_has_the_strict_policy(running: Edge) -> None:
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY
    async with browser(running) as client:
        strangers = [await client.get("/console"), await client.get("/console/live")]
        strangers += [await client.get("/console/login"), await sign_in(client, "wrong")]
        strangers += [await client.get("/console/static/console.js")]
        await sign_in(client)
        paths = ("/console", "/console/live", "/console/calls/req_1")
        for answer in [*strangers, *[await client.get(path) for path in paths]]:
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cache-control"] in ("no-store", "no-cache")


async def test_files_are_ours_and_are_sent_again_only_when_changed(running: Edge) -> None:
    async with browser(running) as client:
        style = await client.get("/console/static/console.css")
        assert style.headers["content-type"] == "text/css; charset=utf-8"
        kept = {"if-none-match": style.headers["etag"]}
        again = await client.get("/console/static/console.css", headers=kept)
        assert (again.status_code, again.content) == (304, b"")
        for other in ("base.html", "..%2Frender.py", "%2e%2e/session.py"):
            assert (await client.get(f"/console/static/{other}")).status_code == 404


def test_templates_have_no_inline_script_or_style_and_nothing_from_elsewhere() -> None:
    files = [*(FOLDER / "templates").glob("*.html"), *(FOLDER / "static").glob("*")]
    assert len(files) >= 7
    for file in files:
        text = file.read_text()
        assert " style=" not in text and "<style" not in text and "|safe" not in text, file
        assert " on" not in {word[:3] for word in text.split('="')[:-1]}, file
        for start in ("//cdn", 'src="http', 'href="http', "url(http", "@import"):
            assert start not in text, file
        assert text.count("<script") == text.count('<script src="/console/static/'), file


async def test_console_is_no_part_of_the_apis_description(running: Edge) -> None:
    async with browser(running) as client:
        described = (await client.get("/openapi.json")).json()["paths"]
        assert not [path for path in described if path.startswith("/console")]


async def _book_a_hostile_call(running: Edge) -> None:
    """One call of an organization, key, model and pool whose names are an attack."""
    parts = running.parts
    organizations = OrganizationService(admin_store(parts), parts.new_id)
    keys = KeyService(admin_store(parts), parts.new_id, parts.outside.entropy)
    organization = await organizations.create(HOSTILE, "hostile")
    project = await organizations.create_project(organization.id, HOSTILE)
    key, _ = await keys.create(project.id, HOSTILE, None)
    store = open_store(parts.settings.sql)
    put_into_force(store, RATES, by="test", now_us=1, version_id="pv_1")
    now_us = round(time() * 1e6)
    candidate = {
        "pool": HOSTILE, "model": "tale-large", "variant": HOSTILE, "capacity_class": "spot",
        "tier": "default", "eligible": True, "score_nanousd": 1, "cost_nanousd": 1, "wait_s": 0.0,
        "reason": HOSTILE,
    }  # fmt: skip
    hostile = call(
        store,
        "req_hostile",
        now_us - 1,
        org=organization.id,
        project=project.id,
        key=key.id,
        pool=HOSTILE,
        error_code=HOSTILE,
        finish_reason=HOSTILE,
        model_requested=HOSTILE,
        decision={"rule": HOSTILE, "policy_revision": 1, "candidates": [candidate]},
    )
    book(store, hostile, now_us=now_us)
    store.close()


async def test_hostile_names_stay_text_on_every_page(running: Edge) -> None:
    await _book_a_hostile_call(running)
    fleet = {
        "v": 1,
        "seq": 2,
        "at_ms": round(time() * 1000),
        "pools": [{"name": "tale-reserved", "target": 0, "reason": f"cold: {HOSTILE}"}],
    }
    await running.redis.set("sluice:fleet", json.dumps(fleet))
    await running.parts.fleet.refresh()
    async with browser(running) as client:
        await sign_in(client)
        for path in ("/console", "/console/live", "/console/calls/req_hostile"):
            page = (await client.get(path)).text
            assert "&lt;script&gt;alert(1)" in page
            for raw in ("<script>alert", "<img src=x", "alert(2)>"):
                assert raw not in page, path


async def test_ledger_that_is_away_hides_calls_and_not_pools(
    running: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.parts.ledger, "engine", _no_engine())
    async with browser(running) as client:
        await sign_in(client)
        page = await client.get("/console")
        assert page.status_code == 200
        assert "database does not answer" in page.text and "tale-reserved" in page.text
        assert (await client.get("/console/calls/req_1")).status_code == 503


def _no_engine() -> Any:
    return open_store("sqlite:////nowhere/at/all.db").engine


async def test_console_without_calls_says_how_to_send_one(running: Edge) -> None:
    async with browser(running) as client:
        await sign_in(client)
        page = (await client.get("/console")).text
        assert "curl -sS http://console.test/v1/chat/completions" in page
        odd = await client.get("/console", headers={"host": "x$(reboot)"})
        assert "reboot" not in odd.text


async def test_call_that_nobody_knows_is_said_to_be_unknown(running: Edge) -> None:
    async with browser(running) as client:
        await sign_in(client)
        page = await client.get("/console/calls/req_%3Cb%3E")
        assert page.status_code == 404
        assert "No such call" in page.text and "<b>" not in page.text


async def test_a_provider_that_refuses_us_is_an_alert_and_what_is_left_alone_a_row(
    running: Edge,
) -> None:
    running.watch.stop()
    running.parts.observed.tally.refuse_retry("m", "far")
    breakers, now_s = running.parts.breakers, running.parts.outside.clock()
    breakers.tell(("pool:far", f"account:{HOSTILE}/-/KEY"), now_s, FailureKind.REFUSED_US, None)
    breakers.tell(("replica:r1",), now_s, FailureKind.COOL_DOWN, 42.0)
    async with browser(running) as client:
        await sign_in(client)
        overview, fleet = await client.get("/console"), await client.get("/console/fleet")
        told = (await client.get("/metrics", headers={"authorization": "Bearer admin"})).text
    for page in (overview.text, fleet.text):
        assert "refuses our key or our account (401, 402 or 403)" in page
        assert HOSTILE not in page and page.count('role="alert"') == 1
    assert "Left alone" in fleet.text and "cooling" in fleet.text and "in 42.0 s" in fleet.text
    assert "no further attempt for 1 call since" in fleet.text
    assert 'sluice_breaker_openings_total{of="account",reason="refused_us"} 1.0' in told
    assert 'sluice_breakers{state="open"} 1.0' in told
    assert 'sluice_breakers{state="cooling"} 1.0' in told
