"""Every route x everybody who may knock: who is let in, and that nobody hears of others.

`ROUTES` says for whom each route is. A route that is not in it fails: whoever adds one says here
for whom it is.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader
from redis.asyncio import Redis

from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from tests.gateway.api.asgi import Answer, answer, ask
from tests.gateway.api.test_described import flat
from tests.gateway.edge import API_KEY, Edge, body, edge
from tests.gateway.outages import ledger
from tests.redis_server import RedisServer

ADMIN = "admin"


class For(StrEnum):
    ANYBODY = "anybody"
    TENANT = "tenant"
    ADMINISTRATOR = "admin"
    EITHER = "either"
    SIGNED_IN = "signed in"
    WORKER = "worker"


USAGE = (
    *("completions", "embeddings", "audio_speeches", "audio_transcriptions"),
    *("code_interpreter_sessions", "file_search_calls", "images", "moderations"),
    *("vector_stores", "web_search_calls"),
)
STATEMENT = "/admin/v1/organizations/{organization_id}/statement"
FILES = ("json", "csv", "pdf", "xml")
ROUTES: Mapping[For, tuple[str, ...]] = {
    For.ANYBODY: (
        *("GET /", "GET /health", "GET /livez", "GET /healthz"),
        "GET /readyz",
        "GET /docs",
        "GET /docs/{name}",
        "GET /openapi.json",
        "POST /v1/webhooks/payments/{seller}",
        "GET /console/login",
        "POST /console/login",
        "GET /console/static/{name}",
    ),
    For.SIGNED_IN: (
        "GET /console",
        "GET /console/",
        "GET /console/live",
        *("GET /console/fleet", "GET /console/fleet/live"),
        "GET /console/calls/{request_id}",
        "POST /console/logout",
        "GET /console/catalogue",
        *("GET /console/providers", "POST /console/providers/{name}/check"),
        "GET /console/refusals",
        *("GET /console/invoices", "GET /console/invoices/{invoice_id}"),
        "POST /console/invoices/{invoice_id}/{action}",
        *("GET /console/invoices/focus.csv", "GET /console/invoices/{document_id}/files/{kind}"),
        *("GET /console/top-ups", "POST /console/top-ups/by-hand"),
        "POST /console/top-ups/{top_up_id}/refund",
        *("GET /console/policies", "GET /console/policies/{version}"),
        *("GET /console/policies/edit", "POST /console/policies/edit"),
        "POST /console/policies/rollback",
        "POST /console/policies/{version}/activate",
    ),
    For.TENANT: (
        "POST /v1/chat/completions",
        "POST /v1/completions",
        "POST /v1/embeddings",
        *("POST /v1/rerank", "POST /v2/rerank", "POST /v1/moderations"),
        *("POST /v1/audio/transcriptions", "POST /v1/audio/translations"),
        "POST /v1/audio/speech",
        *("POST /v1/images/generations", "POST /v1/images/edits"),
        *("POST /v1/responses", "POST /v1/responses/input_tokens"),
        "POST /v1/messages",
        "POST /v1/messages/count_tokens",
        "POST /v1/tokenize",
        "POST /v1/detokenize",
        "POST /v1/quote",
        "GET /v1/key",
        "GET /v1/credits",
        "GET /v1/models",
        "GET /v1/models/{name}",
        *("GET /v1/generations", "GET /v1/generations/{request_id}"),
        "GET /v1/generations/{request_id}/invoice-lines",
        *("GET /v1/organization/invoices", "GET /v1/organization/invoices/{invoice}"),
        "GET /v1/organization/charges/current",
        *(f"GET /v1/organization/invoices/{{invoice_id}}.{kind}" for kind in FILES),
        *(f"GET /v1/organization/statement{kind}" for kind in ("", ".csv", ".pdf")),
        "GET /v1/organization/receipts",
    ),
    For.EITHER: (
        *(f"GET /v1/organization/usage/{name}" for name in USAGE),
        "GET /v1/organization/costs",
    ),
    For.WORKER: ("GET /internal/v1/weights/{id}/{name}", "PUT /internal/v1/weights/report"),
    For.ADMINISTRATOR: (
        "GET /metrics",
        *("POST /admin/v1/organizations", "GET /admin/v1/organizations"),
        "PATCH /admin/v1/organizations/{organization_id}",
        *("POST /admin/v1/projects", "GET /admin/v1/projects"),
        "PATCH /admin/v1/projects/{project_id}",
        *("POST /admin/v1/keys", "GET /admin/v1/keys", "DELETE /admin/v1/keys/{key_id}"),
        "POST /admin/v1/keys/{key_id}/rotate",
        "GET /admin/v1/entitlements",
        *("PUT /admin/v1/entitlements/{scope}", "PATCH /admin/v1/entitlements/{scope}"),
        "GET /admin/v1/limits",
        *("PUT /admin/v1/limits/{scope}", "PATCH /admin/v1/limits/{scope}"),
        *("GET /admin/v1/outages", "PUT /admin/v1/outages/{organization_id}"),
        *("GET /admin/v1/budgets", "POST /admin/v1/budgets", "GET /admin/v1/budgets/alerts"),
        *("GET /admin/v1/budgets/{budget}", "PUT /admin/v1/budgets/{budget}"),
        *("PATCH /admin/v1/budgets/{budget}", "DELETE /admin/v1/budgets/{budget}"),
        *("GET /admin/v1/credits", "POST /admin/v1/credits", "GET /admin/v1/credits/{grant_id}"),
        "POST /admin/v1/credits/{grant_id}/void",
        "GET /admin/v1/organizations/{organization_id}/credit-alerts",
        "PUT /admin/v1/organizations/{organization_id}/credit-alerts",
        *("GET /admin/v1/models", "PUT /admin/v1/models/{name}", "DELETE /admin/v1/models/{name}"),
        "POST /admin/v1/models/apply",
        *("GET /admin/v1/pools", "PUT /admin/v1/pools/{name}", "PATCH /admin/v1/pools/{name}"),
        *("POST /admin/v1/pools/{name}/check", "GET /admin/v1/pools/{name}/models"),
        *("POST /admin/v1/pools/{name}/wake", "POST /admin/v1/pools/{name}/sleep"),
        *(f"{verb} /admin/v1/providers/{{name}}" for verb in ("GET", "PUT", "DELETE")),
        *("GET /admin/v1/providers", "POST /admin/v1/providers/{name}/check"),
        *(f"{verb} /admin/v1/providers/{{name}}/keys/{{key}}" for verb in ("PUT", "DELETE")),
        *(f"{verb} /admin/v1/providers/{{name}}/price-lists" for verb in ("GET", "POST")),
        "GET /admin/v1/providers/{name}/price-lists/{version}",
        *(f"{verb} /admin/v1/providers/{{name}}/reconciliations" for verb in ("GET", "POST")),
        "GET /admin/v1/providers/{name}/reconciliations/{sha256}",
        "POST /admin/v1/providers/{name}/price-lists/{version}/approve",
        *("GET /admin/v1/nodes", "POST /admin/v1/nodes/{id}/drain"),
        *("DELETE /admin/v1/pools/{name}", "GET /admin/v1/fleet"),
        *("GET /admin/v1/variants", "GET /admin/v1/variants/{model}/{name}"),
        "PUT /admin/v1/variants/{model}/{name}",
        "DELETE /admin/v1/variants/{model}/{name}",
        *("GET /admin/v1/hardware", "GET /admin/v1/hardware/{name}"),
        *("PUT /admin/v1/hardware/{name}", "DELETE /admin/v1/hardware/{name}"),
        *("GET /admin/v1/calibrations", "GET /admin/v1/calibrations/{pool}"),
        "GET /admin/v1/offers",
        *("GET /admin/v1/quality", "POST /admin/v1/quality", "GET /admin/v1/quality/active"),
        *("GET /admin/v1/quality/{version}", "POST /admin/v1/quality/rollback"),
        "POST /admin/v1/quality/{version}/activate",
        "GET /admin/v1/policies/{version}/outcomes",
        *("GET /admin/v1/policies", "POST /admin/v1/policies", "GET /admin/v1/policies/active"),
        *("GET /admin/v1/policies/schema", "GET /admin/v1/policies/{version}"),
        *("POST /admin/v1/policies/rollback", "POST /admin/v1/policies/{version}/activate"),
        "POST /admin/v1/policies/{version}/validate",
        *("GET /admin/v1/prices", "POST /admin/v1/prices", "GET /admin/v1/prices/{version_id}"),
        *("PUT /admin/v1/prices/{version_id}", "DELETE /admin/v1/prices/{version_id}"),
        "POST /admin/v1/prices/{version_id}/approve",
        "POST /admin/v1/prices/{version_id}/activate",
        "GET /admin/v1/prices/{version_id}/difference",
        "GET /admin/v1/refusals",
        *("GET /admin/v1/requests", "GET /admin/v1/requests/{request_id}"),
        "GET /admin/v1/requests/{request_id}/invoice-lines",
        "POST /admin/v1/route/explain",
        *("GET /admin/v1/usage", "GET /admin/v1/margins"),
        *("GET /admin/v1/ledger/accounts", "GET /admin/v1/ledger/transfers"),
        *("GET /admin/v1/ledger/verify", "GET /admin/v1/ledger/dead-letters"),
        "GET /admin/v1/ledger/dead-letters/{letter_id}",
        "POST /admin/v1/ledger/dead-letters/{letter_id}/retry",
        "POST /admin/v1/ledger/dead-letters/{letter_id}/resolve",
        *("GET /admin/v1/invoices", "POST /admin/v1/invoices"),
        "GET /admin/v1/invoices/{invoice}",
        *("POST /admin/v1/invoices/{invoice}/credit", "GET /admin/v1/credit-notes"),
        "GET /admin/v1/invoices/{invoice_id}/lines/{seq}/calls",
        "GET /admin/v1/invoices/{invoice}/events",
        *(f"POST /admin/v1/invoices/{{invoice_id}}/{verb}" for verb in ("void", "hold", "approve")),
        *(f"POST /admin/v1/invoices/{{invoice_id}}/{verb}" for verb in ("issue", "uncollectible")),
        "POST /admin/v1/invoices/{invoice_id}/void",
        "PUT /admin/v1/sellers/{seller_id}/payment-secret",
        *(f"GET /admin/v1/books/journal.{kind}" for kind in ("csv", "beancount")),
        *("GET /admin/v1/books/receivables", "GET /admin/v1/books/periods"),
        "POST /admin/v1/books/periods/{period}/close",
        *(f"GET {STATEMENT}{kind}" for kind in ("", ".csv", ".pdf")),
        *("GET /admin/v1/webhooks", "POST /admin/v1/webhooks"),
        *(f"{verb} /admin/v1/webhooks/{{webhook_id}}" for verb in ("PATCH", "DELETE")),
        *(f"POST /admin/v1/webhooks/{{webhook_id}}/{verb}" for verb in ("rotate", "replay")),
        "GET /admin/v1/webhooks/{webhook_id}/deliveries",
        "POST /admin/v1/webhooks/{webhook_id}/deliveries/{event_id}/replay",
        *("POST /admin/v1/invoices/{invoice}/pay", "GET /admin/v1/payments"),
        *("POST /admin/v1/invoices/{invoice}/apply-balance", "POST /admin/v1/payments/import"),
        *(f"POST /admin/v1/payments/{{payment_id}}/{verb}" for verb in ("refund", "reverse")),
        "POST /admin/v1/organizations/{organization_id}/top-ups",
        *("GET /admin/v1/top-ups", "POST /admin/v1/top-ups/{top_up_id}/refund"),
        *("GET /admin/v1/invoice-runs", "POST /admin/v1/invoice-runs"),
        "GET /admin/v1/invoice-runs/{run_id}",
        *("GET /admin/v1/sellers", "GET /admin/v1/sellers/{seller_id}"),
        "PUT /admin/v1/sellers/{seller_id}",
        "GET /admin/v1/organizations/{organization_id}/billing-profile",
        "PUT /admin/v1/organizations/{organization_id}/billing-profile",
        "GET /admin/v1/invoices/{invoice_id}/lines/{seq}/calls",
        "GET /admin/v1/organizations/{organization_id}/terms",
        "PUT /admin/v1/organizations/{organization_id}/terms",
        *("GET /admin/v1/tax-rules", "PUT /admin/v1/tax-rules/{rule_id}"),
        "DELETE /admin/v1/tax-rules/{rule_id}",
        *("GET /admin/v1/exchange-rates", "PUT /admin/v1/exchange-rates/{currency}/{date}"),
        "GET /admin/v1/invoices/focus.csv",
        *(f"GET /admin/v1/invoices/{{invoice_id}}.{kind}" for kind in FILES),
    ),
}
FOR_WHOM = {route: whom for whom, routes in ROUTES.items() for route in routes}
DONE_LAST = ("DELETE", "POST /admin/v1/keys/{key_id}/rotate")
"""What would take away what the other routes are asked about names nothing that is there."""
LET_IN: Mapping[For, frozenset[str]] = {
    For.ANYBODY: frozenset(
        {"none", "wrong", "tail", "admin tail", "tenant", "other", "frozen", ADMIN}
    ),
    For.TENANT: frozenset({"tenant", "other"}),
    For.EITHER: frozenset({"tenant", "other", ADMIN}),
    For.ADMINISTRATOR: frozenset({ADMIN}),
    For.SIGNED_IN: frozenset(),
    For.WORKER: frozenset(),
}
OURS = re.compile(r"cogs|score|(?<!amount_)nanousd|margin|\b(run|start|wait|quality|risk) \d")
"""What a call costs us, in whatever field but that of what a tenant is charged, and the sum it was
sent somewhere by."""


@dataclass(frozen=True, slots=True)
class House:
    """A gateway with a tenant, another one and a frozen one; the first has made a call."""

    one: Edge
    keys: Mapping[str, str | None]
    call: str

    async def knock(self, route: str, who: str, address: str) -> Answer:
        """Each address guesses once: those who guess more wait for one another."""
        method, path = route.split(" ")
        key = self.keys[who]
        headers = {"content-type": "application/json"}
        headers |= {} if key is None else {"authorization": f"Bearer {key}"}
        sent = b"" if method in ("GET", "DELETE") else json.dumps(BODIES.get(path, {})).encode()
        return await answer(
            self.one.app, method, self._filled(route), sent, headers=headers, address=address
        )

    def _filled(self, route: str) -> str:
        """The path with names of the first tenant's; nothing that would be taken away."""
        path = route.split(" ")[1]
        names = {
            "request_id": self.call,
            "organization_id": ORGANIZATION_ID,
            "project_id": PROJECT_ID,
            "scope": f"key:{KEY_ID}",
            "budget": f"key:{KEY_ID}",
            "version": "1",
            "pool": "tale-reserved",
            "name": "tale" if "models" in path else "tale-reserved",
        }
        if route.startswith(DONE_LAST):
            names = {"budget": "key:nobody"}
        filled = re.sub(r"{(\w+)}", lambda found: names.get(found[1], "nothing"), path)
        return f"{filled}?start_time=1" if "/organization/" in path else filled


SAID = [{"role": "user", "content": "a"}]
BODIES: Mapping[str, Any] = {
    "/v1/chat/completions": {"model": "tale", "messages": SAID, "max_tokens": 4},
    "/v1/completions": {"model": "tale", "prompt": "a", "max_tokens": 4},
    "/v1/embeddings": {"model": "vectors"},
    "/v1/responses": {"model": "tale", "input": "a"},
    "/v1/messages": {"model": "tale", "messages": SAID, "max_tokens": 4},
    "/v1/messages/count_tokens": {"model": "tale", "messages": SAID},
    "/v1/responses/input_tokens": {"model": "tale", "input": "a"},
    "/v1/quote": {"url": "/v1/chat/completions", "body": body()},
}


@pytest.fixture
async def house(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[House]:
    async with edge(redis_server, redis, tmp_path) as one:
        keys = {
            "none": None,
            "wrong": "sk-sluice-ffffffffffffffff",
            "tail": f"{API_KEY}0",
            "admin tail": f"{ADMIN}0",
            "tenant": API_KEY,
            "other": await _tenant(one, "other"),
            "frozen": await _tenant(one, "frozen", status="frozen"),
            ADMIN: ADMIN,
        }
        call = (await one.post(body())).headers["x-request-id"]
        async with ledger(redis, tmp_path):
            status, _ = await ask(one.app, "GET", f"/v1/generations/{call}", b"", API_KEY)
            assert status == 200
        yield House(one, keys, call)


async def _tenant(one: Edge, name: str, **change: str) -> str:
    async def put(method: str, path: str, sent: dict[str, Any]) -> Any:
        status, told = await ask(
            one.app, method, f"/admin/v1/{path}", json.dumps(sent).encode(), ADMIN
        )
        assert status < 300, told
        return told

    organization = (await put("POST", "organizations", {"name": name, "slug": name}))["id"]
    project = await put("POST", "projects", {"organization": organization, "name": name})
    key = await put("POST", "keys", {"project": project["id"], "name": name})
    if change:
        await put("PATCH", f"organizations/{organization}", change)
    return str(key["secret"])


def routes_of(one: Edge) -> set[str]:
    return {
        f"{method} {route.path.replace(':path}', '}')}"
        for route in flat(one.app.router.routes)
        for method in route.methods - {"HEAD"}
    }


async def test_every_route_says_here_for_whom_it_is(house: House) -> None:
    assert set(FOR_WHOM) == routes_of(house.one)


async def test_nobody_is_let_in_whom_a_route_is_not_for(house: House) -> None:
    addresses = (f"10.0.{n // 256}.{n % 256}" for n in count())
    knocks = {
        (route, who): asyncio.create_task(house.knock(route, who, next(addresses)))
        for route in sorted(FOR_WHOM, key=lambda route: route.startswith(DONE_LAST))
        for who in house.keys
    }
    await asyncio.gather(*knocks.values())
    answers = {knock: task.result() for knock, task in knocks.items()}
    found = {knock: _said(*knock, given) for knock, given in answers.items()}
    wrong = [f"{' '.join(knock)}: {said}" for knock, said in found.items() if said]
    assert not wrong, "\n".join(wrong)


def _said(route: str, who: str, given: Answer) -> str | None:
    """What is wrong with what one was told."""
    whom = FOR_WHOM[route]
    if not 200 <= given.status < 500:
        return f"failed: {given.status} {given.body!r}"
    if whom is For.SIGNED_IN:
        door = given.headers.get("location", "")
        is_shut = given.status == 401 or door.startswith(("/console/login", "/console"))
        return None if is_shut and given.status >= 300 else f"let in: {given.status}"
    if who in LET_IN[whom]:
        if given.status in (401, 403) and route != "POST /console/login":
            return f"kept out: {given.status}"
    elif who == "frozen" and whom not in (For.ADMINISTRATOR, For.WORKER):
        if (given.status, given.json["error"]["type"]) != (403, "permission_error"):
            return f"frozen, and {given.status} {given.body!r}"
    elif given.status != 401:
        return f"let in: {given.status}"
    return _heard(who, route, given)


def _heard(who: str, route: str, given: Answer) -> str | None:
    """What nobody of this kind may hear of."""
    if who == ADMIN or FOR_WHOM[route] is For.ANYBODY:
        return None
    told = _text(given)
    if OURS.search(told + " ".join(given.headers.values())):
        return f"our costs: {given.headers} {given.body!r}"
    theirs = (ORGANIZATION_ID, KEY_ID, PROJECT_ID)
    if who != "tenant" and any(name in told for name in theirs):
        return f"what is the tenant's: {given.body!r}"
    return None


def _text(given: Answer) -> str:
    """What it says; of a PDF, what stands on its pages."""
    if not given.body.startswith(b"%PDF"):
        return given.body.decode()
    return " ".join(page.extract_text() for page in PdfReader(io.BytesIO(given.body)).pages)


async def test_tenant_is_told_prices_and_words_and_the_operator_the_sum(house: House) -> None:
    """A tenant read what a call costs us in the decision's header, in quotes and explanations."""
    quoted = (await house.knock("POST /v1/quote", "tenant", "10.9.1.1")).json
    own = (await house.knock("GET /v1/generations/{request_id}", "tenant", "10.9.1.2")).json
    of_us = await house.knock("GET /admin/v1/requests/{request_id}", ADMIN, "10.9.1.3")
    assert len(quoted["candidates"]) == len(own["candidates"]) == 2
    for told in (*quoted["candidates"], *own["candidates"]):
        assert set(told) == {
            *("pool", "model", "variant", "capacity_class", "tier", "eligible"),
            *("reason", "wait_s", "price_usd"),
        }
        assert Decimal(told["price_usd"]) > 0
    assert {c["price_usd"] for c in own["candidates"]} == {own["cost_usd"]}
    assert {c["price_usd"] for c in quoted["candidates"]} == {quoted["models"][0]["max_usd"]}
    for known, told in zip(own["candidates"], of_us.json["candidates"], strict=True):
        assert told.items() >= known.items()
        assert set(told) - set(known) == {"cogs_usd", "score_usd", "sum"}
        assert "run " in told["sum"]


async def test_header_of_the_decision_is_in_words(house: House) -> None:
    told = await house.knock("POST /v1/chat/completions", "tenant", "10.9.2.1")
    assert told.headers["x-sluice-decision"] == f"{told.headers['x-sluice-pool']} warm"


async def test_call_of_a_tenant_is_nowhere_to_be_found_by_another(house: House) -> None:
    route = "GET /v1/generations/{request_id}"
    assert (await house.knock(route, "tenant", "10.9.0.1")).status == 200
    other = await house.knock(route, "other", "10.9.0.2")
    unknown = await answer(
        house.one.app,
        "GET",
        f"/v1/generations/{'x' * len(house.call)}",
        headers={"authorization": f"Bearer {house.keys['other']}"},
    )
    assert (other.status, unknown.status) == (404, 404)
    assert other.body.replace(house.call.encode(), b"x" * len(house.call)) == unknown.body


async def test_key_in_anthropic_s_header_is_the_key_where_anthropic_s_clients_call(
    house: House,
) -> None:
    for route in ("POST /v1/messages", "POST /v1/messages/count_tokens"):
        method, path = route.split(" ")
        sent = json.dumps(BODIES[path]).encode()
        for who, key in house.keys.items():
            given = await answer(
                house.one.app, method, path, sent, headers={"x-api-key": key or ""}
            )
            refusal = {"tenant": None, "other": None, "frozen": 403}.get(who, 401)
            assert (given.status if given.status in (401, 403) else None) == refusal, who
