"""A world of whole gateways: two of them over HTTP, with tenants, callers and a server outside.

Everything else, and all harm, is that of `world` and `faults`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from billing.money import usd
from tests.chaos import gateway_process
from tests.chaos.soak_parts import PAUSE_S, Callers, Outside
from tests.chaos.soak_plan import Tenant
from tests.chaos.world import EDGES, IDLE_WITHIN_S, READY_WITHIN_S, World, running
from tests.gateway_processes import ADMIN_KEY, next_free_port
from tests.nursery import Child
from tests.stack_process import environment, free_port

CONFIG = """
[gateway]
log_level = "warning"
lease_s = 3.0
renew_s = 0.3
external_first_token_timeout_s = 4.0
external_idle_timeout_s = 4.0
spool_segment_bytes = 1048576
[gateway.limiter]
timeout_ms = 200.0
open_s = 0.3
[gateway.idempotency]
lease_s = 2.0
[[models]]
name = "tale-large"
context_tokens = 16384
max_output_tokens = 1024
size_rank = 2
quality = 0.9
[[models]]
name = "tale-small"
context_tokens = 16384
max_output_tokens = 1024
size_rank = 1
quality = 0.5
"""
POOL = """
[[pools]]
name = "{model}-{letter}"
model = "{model}"
capacity_class = "external"
upstream_model = "{model}"
base_url = "{url}/{letter}/v1"
max_ongoing = 64
"""
STOPPED = (0, -signal.SIGTERM)


@dataclass
class GatewayWorld(World):
    outside: Outside = field(init=False)
    callers_at_work: Callers = field(init=False)
    session: aiohttp.ClientSession = field(init=False)
    callers_pause_s: float = PAUSE_S
    organizations: dict[str, str] = field(default_factory=dict)
    """By tenant; `scopes` are what its money is counted under."""
    scopes: dict[str, dict[str, str]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def whole(self) -> int:
        return self.callers_at_work.whole

    # --- its processes ---------------------------------------------------------------------------

    def url(self, gateway: int) -> str:
        return f"http://127.0.0.1:{self.ports[EDGES[gateway]]}"

    async def start_edge(
        self, name: str, *, die: str = "", callers: int | None = None, bills_half: bool = False
    ) -> None:
        """Whole, and without callers of its own: those are here."""
        env = environment() | {
            "SLUICE_CONFIG": str(self.folder / "sluice.toml"),
            "SLUICE_DATA": str(self.folder),
            "SLUICE_REDIS_URL": self.redis.url,
            "SLUICE_SQL_URL": self.database.url,
            "SLUICE_ADMIN_KEY": ADMIN_KEY,
            "SLUICE_WORKER_SECRET": "worker-secret",
            "SLUICE_GATEWAY__PORT": str(self.ports[name]),
        }
        knobs = self.folder / f"{name}.knobs"
        await self._start(name, Child(gateway_process.run, die, knobs, bills_half, env=env))

    async def said(self, name: str, word: str, within_s: float = READY_WITHIN_S) -> None:
        if name not in EDGES:
            await super().said(name, word, within_s)
        elif word == "ready":
            await self.until(
                lambda: self._is_ready(name), within_s, lambda: f"{name}: {self.log_of(name)}"
            )

    async def _is_ready(self, name: str) -> bool:
        """But for the fleet, which nobody publishes here."""
        url = f"http://127.0.0.1:{self.ports[name]}/readyz"
        try:
            async with self.session.get(url, timeout=aiohttp.ClientTimeout(total=5)) as response:
                checks = (await response.json()).get("checks", {"database": False})
        except (aiohttp.ClientError, TimeoutError):
            return False
        return all(there for what, there in checks.items() if what != "fleet")

    async def _come_to_rest(self, name: str) -> None:
        """Stopped, as an operator stops it; one that died comes back to settle what it owes."""
        if name in self.parts and self.parts[name].process.returncode is not None:
            await self.ended(name)
        if name not in self.parts:
            await self.start_edge(name)
        await self.said(name, "ready")
        self.signal(name, signal.SIGTERM)
        status = await self.ended(name, IDLE_WITHIN_S)
        assert status in STOPPED, f"{name} ended with {status}: {self.log_of(name)}"

    async def _heal(self) -> None:
        await super()._heal()
        self.outside.harm = None

    # --- its tenants -----------------------------------------------------------------------------

    async def admin(self, method: str, path: str, sent: Any = None, gateway: int = 0) -> Any:
        url, named = self.url(gateway), {"authorization": f"Bearer {ADMIN_KEY}"}
        url = f"{url}/admin/v1{path}"
        async with self.session.request(method, url, json=sent, headers=named) as response:
            answer = await response.json()
            assert response.status in (200, 201), answer
            return answer

    async def settle_in(self, tenant: Tenant) -> None:
        """An organization with a project and a key, its money and its limits."""
        name = tenant.name
        org = (await self.admin("POST", "/organizations", {"name": name, "slug": name}))["id"]
        project = await self.admin("POST", "/projects", {"organization": org, "name": name})
        key = await self.admin("POST", "/keys", {"project": project["id"], "name": name})
        ids = {"org": org, "project": project["id"], "key": key["id"]}
        self.organizations[name] = org
        self.scopes[name] = scopes = {kind: f"{kind}:{found}" for kind, found in ids.items()}
        self.callers_at_work.secrets[name] = key["secret"]
        for grant in tenant.grants:
            given = {
                "id": grant.name,
                "organization": org,
                "category": "paid" if grant.paid else "promotional",
                "amount_usd": usd(grant.amount),
                "priority": grant.priority,
                "models": list(grant.models),
            }
            await self.admin("POST", "/credits", given)
        if tenant.pays_before:
            await self.admin("PATCH", f"/organizations/{org}", {"settlement_mode": "prepaid"})
        if tenant.may_owe is not None:
            limit = {"credit_limit_usd": usd(tenant.may_owe)}
            await self.admin("PATCH", f"/organizations/{org}", limit)
        if tenant.limits:
            scope = scopes[tenant.limits_scope]
            await self.admin("PUT", f"/limits/{scope}", dict(tenant.limits))
        if tenant.outage:
            await self.admin("PUT", f"/outages/{org}", dict(tenant.outage))
        await self._set_budget(tenant, scopes)

    async def _set_budget(self, tenant: Tenant, scopes: dict[str, str]) -> None:
        if tenant.hard is None:
            return
        amount = usd(tenant.hard)
        if not tenant.window:
            await self.admin("PUT", f"/budgets/{scopes['key']}", {"limit_usd": amount})
            return
        budget = {
            "scope": scopes[tenant.window_scope],
            "name": tenant.name,
            "limit_usd": amount,
            "window": dict(tenant.window),
            "hard": not tenant.is_soft,
            "alerts": [50, 100],
        }
        await self.admin("POST", "/budgets", budget)


@asynccontextmanager
async def called(world: GatewayWorld, tenants: Sequence[Tenant]) -> AsyncIterator[Callers]:
    """By all callers of these tenants while the block runs; afterwards they have heard the end."""
    callers = world.callers_at_work
    for tenant in tenants:
        await world.settle_in(tenant)
    calling = [
        asyncio.create_task(callers.call_on(tenant, caller))
        for tenant in tenants
        for caller in range(tenant.callers)
    ]
    try:
        yield callers
    finally:
        callers.stopping.set()
    await asyncio.gather(*calling)


@asynccontextmanager
async def whole_gateways(
    world: GatewayWorld, *, bills_half: bool = False
) -> AsyncIterator[GatewayWorld]:
    """At work, and ended afterwards, with nobody calling yet."""
    first = free_port()
    world.ports = dict(zip(EDGES, (first, next_free_port(first)), strict=True))
    connector = aiohttp.TCPConnector(limit=0)
    world.outside = Outside(world.seed)
    async with (
        world.outside.server as server,
        aiohttp.ClientSession(connector=connector) as world.session,
    ):
        pools = [
            POOL.format(model=model, letter=letter, url=server.address)
            for model in ("tale-large", "tale-small")
            for letter in "ab"
        ]
        (world.folder / "sluice.toml").write_text(CONFIG + "".join(pools))
        world.callers_at_work = Callers(
            world.seed, world.session, world.url, pause_s=world.callers_pause_s
        )
        async with running(world, edges=()):
            for name in EDGES:
                await world.start_edge(name, bills_half=bills_half)
            for name in EDGES:
                await world.said(name, "ready")
            yield world
