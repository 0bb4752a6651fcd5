"""What an administrator can do, over HTTP alone."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

import openai
import pytest

from tests.journeys.calls import CHAT, SMALL, body, nano
from tests.stack import Stack, Tenant
from tests.stack_config import ROOT


def models_status(stack: Stack, secret: str) -> int:
    return stack.call("GET", "/v1/models", secret=secret).status_code


def test_new_organization_can_call_and_is_billed(stack: Stack) -> None:
    organization = stack.admin("POST", "/organizations", {"name": "Heron", "slug": "heron"})
    project = stack.admin("POST", "/projects", {"organization": organization["id"], "name": "web"})
    key = stack.admin("POST", "/keys", {"project": project["id"], "name": "first"})
    assert key["secret"].startswith("sk-sluice-")
    response = stack.call("POST", CHAT, secret=key["secret"], json=body(max_tokens=2))
    booked = stack.generation(response.headers["x-request-id"])
    assert booked["organization"] == organization["id"]
    assert (booked["project"], booked["key"]) == (project["id"], key["id"])
    assert organization in stack.admin("GET", "/organizations")["data"]
    listed = stack.admin("GET", f"/projects?organization={organization['id']}")["data"]
    assert [found["id"] for found in listed] == [project["id"]]


def test_secret_of_a_key_is_told_once_and_kept_nowhere(stack: Stack, tenant: Tenant) -> None:
    assert tenant.secret not in json.dumps(stack.admin("GET", "/keys"))
    for file in stack.data.rglob("*"):
        if file.is_file() and file.name.startswith(("sluice.db", "appendonly", "gateway.log")):
            assert tenant.secret.encode() not in file.read_bytes(), file.name


@pytest.mark.parametrize("secret", ["sk-wrong", ""])
def test_admin_api_wants_the_admin_key(stack: Stack, tenant: Tenant, secret: str) -> None:
    for given in (secret, tenant.secret):
        response = stack.call(
            "GET", "/admin/v1/fleet", headers={"authorization": f"Bearer {given or 'x'}"}
        )
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"


REFUSED: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "an unknown field": ("POST", "/organizations", {"name": "x", "slug": "x", "y": 1}, 400),
    "a slug with a space": ("POST", "/organizations", {"name": "x", "slug": "a b"}, 400),
    "a project of nobody": ("POST", "/projects", {"organization": "org_no", "name": "x"}, 404),
    "a key of no project": ("POST", "/keys", {"project": "proj_no", "name": "x"}, 404),
    "limits of nothing": ("PUT", "/limits/key:none", {"concurrency": 1}, 404),
    "limits of a strange scope": ("PUT", "/limits/planet:earth", {"concurrency": 1}, 400),
    "a limit no script can count": ("PUT", "/limits/key:key_default", {"concurrency": 2**53}, 400),
    "a key that outlives the calendar": (
        "POST",
        "/keys",
        {"project": "proj_default", "name": "x", "expires_at": 2**40},
        400,
    ),
    "a key that has ended before it began": (
        "POST",
        "/keys",
        {"project": "proj_default", "name": "x", "expires_at": 1},
        400,
    ),
    "leave for a model that is not there": (
        "PUT",
        "/entitlements/key:key_default",
        {"models": [SMALL, "gpt-none"]},
        400,
    ),
    "usage of no time": ("GET", "/usage?end_time=99999999999999999999", {}, 400),
    "invoices of no year": ("POST", "/invoices?period=0000-01", {}, 400),
    "a limit below zero": ("PUT", "/limits/key:none", {"concurrency": -1}, 400),
    "a budget that is no amount": ("PUT", "/budgets/key:none", {"limit_usd": "lots"}, 400),
    "a budget too fine": ("PUT", "/budgets/key:none", {"limit_usd": "0.0000000001"}, 400),
    "a price below zero": (
        "POST",
        "/prices",
        {
            "rates": [
                {"model": "m", "tier": "flex", "component": "input", "usd_per_mtok": "-1"},
            ]
        },
        400,
    ),
    "a checkpoint that is not there": (
        "PUT",
        "/models/ghost",
        {
            "path": "/nowhere",
            "context_tokens": 1,
            "max_output_tokens": 1,
            "size_rank": 1,
            "quality": 0,
        },
        400,
    ),
    "an own pool with a URL": (
        "PUT",
        "/pools/odd",
        {"model": SMALL, "capacity_class": "spot", "base_url": "http://x"},
        400,
    ),
    "a pool of no model": (
        "PUT",
        "/pools/odd",
        {"model": "nothing", "capacity_class": "spot"},
        409,
    ),
}


@pytest.mark.parametrize(("method", "path", "sent", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_in_the_same_shape(
    stack: Stack, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    response = stack.admin_response(method, path, sent)
    assert response.status_code == status, response.text
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}


def test_slug_is_taken_once(stack: Stack) -> None:
    assert stack.admin_response("POST", "/organizations", {"name": "A", "slug": "once"}).is_success
    again = stack.admin_response("POST", "/organizations", {"name": "B", "slug": "once"})
    assert again.status_code == 409


def test_frozen_organization_stops_and_goes_on(stack: Stack, tenant: Tenant) -> None:
    path = f"/organizations/{tenant.organization}"
    assert models_status(stack, tenant.secret) == 200
    stack.admin("PATCH", path, {"status": "frozen"})
    stack.wait_until(lambda: models_status(stack, tenant.secret) == 403, 60, "the freeze")
    stack.admin("PATCH", path, {"status": "active"})
    stack.wait_until(lambda: models_status(stack, tenant.secret) == 200, 60, "the thaw")


def test_key_stops_at_its_end(stack: Stack, tenant: Tenant) -> None:
    sent = {"project": tenant.project, "name": "short", "expires_at": round(time.time()) + 6}
    key = stack.admin("POST", "/keys", sent)
    assert models_status(stack, key["secret"]) == 200
    stack.wait_until(lambda: models_status(stack, key["secret"]) == 401, 60.0, "the key to end")


def test_key_revoked_by_another_gateway_stops_soon(stack: Stack, tenant: Tenant) -> None:
    """Nobody tells this gateway: the revision in SQL is all there is to notice. It does not get as
    long as what it knows of a key lives by itself; `tests/gateway/tenants/test_revision.py` has the
    law."""
    assert models_status(stack, tenant.secret) == 200
    with sqlite3.connect(stack.data / "sluice.db", timeout=10) as database:
        database.execute("UPDATE api_key SET revoked_us = 1 WHERE id = ?", (tenant.key,))
        database.execute("UPDATE catalog_revision SET revision = revision + 1")
    stack.wait_until(lambda: models_status(stack, tenant.secret) == 401, 20, "the key to stop")


def test_budget_tells_what_is_spent_of_it(stack: Stack) -> None:
    tenant = stack.tenant(budget_usd="0.5", window="month")
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body(max_tokens=3))
    stack.wait_quiet()
    found = {b["scope"]: b for b in stack.admin("GET", "/budgets")["data"]}
    told = found[f"key:{tenant.key}"]
    assert (told["limit_usd"], told["window"], told["held_usd"]) == ("0.50", "month", "0.00")
    assert told["spent_usd"] == response.headers["x-sluice-cost-usd"]
    stack.admin("PUT", f"/budgets/key:{tenant.key}", {"limit_usd": None})
    assert f"key:{tenant.key}" not in {b["scope"] for b in stack.admin("GET", "/budgets")["data"]}


def test_future_price_waits_for_its_time(stack: Stack) -> None:
    before = stack.call("GET", f"/v1/models/{SMALL}").json()["pricing"]
    rates = [
        {"model": SMALL, "tier": "default", "component": component, "usd_per_mtok": "9"}
        for component in ("input", "output")
    ]
    version = stack.admin(
        "POST", "/prices", {"rates": rates, "effective_from_s": 4_000_000_000, "note": "later"}
    )
    listed = stack.admin("GET", "/prices")["data"]
    assert version["id"] in {found["id"] for found in listed}
    assert stack.call("GET", f"/v1/models/{SMALL}").json()["pricing"] == before


def test_fleet_tells_states_and_reasons(stack: Stack) -> None:
    stack.wake("small-reserved")
    fleet = stack.admin("GET", "/fleet")
    assert fleet["age_s"] < 30
    pools = {pool["name"]: pool for pool in fleet["pools"]}
    assert pools.keys() >= {"small-reserved", "small-spot", "large-reserved", "large-spot", "nap"}
    assert all(pool["reason"] for pool in pools.values())
    assert pools["small-reserved"]["replicas"][0]["state"] == "WARM"


def test_pool_and_model_made_by_the_admin_serve_from_zero(stack: Stack, tenant: Tenant) -> None:
    """A new model on a new pool of our own: deployed, started on demand, and taken away again."""
    stack.admin(
        "PUT",
        "/models/fresh",
        {
            "path": str(ROOT / "models" / "sluice-small"),
            "context_tokens": 256,
            "max_output_tokens": 64,
            "size_rank": 0,
            "quality": 0,
        },
    )
    pool = {"model": "fresh", "capacity_class": "on_demand", "idle_s": 3, "num_cpus": 0.1}
    stack.admin("PUT", "/pools/fresh", pool | {"cost_usd_per_s": "1"})
    stack.add_prices("fresh", {"input": "1", "cached_input": "1", "output": "1"})
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body("fresh", max_tokens=4))
    assert response.status_code == 200, response.text
    assert response.headers["x-sluice-pool"] == "fresh"
    assert nano(response.headers["x-sluice-cost-usd"]) > 0
    stack.admin("DELETE", "/pools/fresh")
    stack.admin("DELETE", "/models/fresh")
    stack.wait_until(lambda: "fresh" not in stack.fleet(), 60, "the pool to leave the fleet")
    with stack.openai(tenant.secret) as client, pytest.raises(openai.NotFoundError):
        client.models.retrieve("fresh")


def test_health_is_open_to_all_and_says_what_is_missing(stack: Stack) -> None:
    for path in ("/healthz", "/livez", "/health"):
        assert stack.call("GET", path).json() == {"status": "ok"}
    ready = stack.call("GET", "/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert all(ready.json()["checks"].values())
