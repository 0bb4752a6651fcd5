"""Several gateways and a ledger as real processes over one Redis and one database, with a fake
external server to call; no Ray. Everything they say is kept in files below the data folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.empty_database import put_empty_database
from tests.nursery import Part, gateway_main, ledger_main
from tests.redis_server import RedisServer
from tests.stack_process import environment, free_port

API_KEY = "sk-sluice-canary-0123456789abcdef"
ADMIN_KEY = "sk-admin-canary-0123456789abcdef"
READY_WITHIN_S = 120.0

CONFIG = """
[gateway]
log_level = "debug"
lease_s = 6.0
renew_s = 0.3
[gateway.limiter]
timeout_ms = 200.0
open_s = 0.3
[ledger]
reap_interval_s = 0.2
recovery_grace_s = 1.0
gateway_silent_s = 1.5
orphan_after_s = 0.5
spool_interval_s = 0.5
linger_ms = 0
[[models]]
name = "outside"
context_tokens = 4096
max_output_tokens = 1024
size_rank = 1
quality = 0.5
[[pools]]
name = "outside"
model = "outside"
capacity_class = "external"
upstream_model = "outside"
base_url = "{base_url}/v1"
max_ongoing = 64
[[prices]]
model = "outside"
tier = "default"
input_usd_per_mtok = "1"
output_usd_per_mtok = "5"
"""


@dataclass
class Gateways:
    """`ports` one for each; the first is asked for what is the same everywhere."""

    data: Path
    env: dict[str, str]
    ports: Sequence[int]
    processes: dict[str, Part] = field(default_factory=dict)
    session: aiohttp.ClientSession = field(init=False)

    def start(
        self, part: str, gateway: Callable[[], None] = gateway_main, **variables: str
    ) -> None:
        """`ledger`, or the number of a gateway, with variables of its own."""
        entry, env = ledger_main, self.env | variables
        if part != "ledger":
            entry = gateway
            env |= {"SLUICE_GATEWAY__PORT": str(self.ports[int(part)])}
        with (self.data / f"{part}.log").open("ab") as log:
            self.processes[part] = Part(entry, env=env, log=log)

    def kill9(self, part: str) -> None:
        process = self.processes.pop(part)
        process.kill()
        process.wait(timeout=60)

    def url(self, number: int, path: str) -> str:
        return f"http://127.0.0.1:{self.ports[number % len(self.ports)]}{path}"

    async def admin(self, method: str, path: str, sent: Any = None) -> Any:
        url, named = self.url(0, f"/admin/v1{path}"), {"authorization": f"Bearer {ADMIN_KEY}"}
        async with self.session.request(method, url, json=sent, headers=named) as response:
            told = await response.json()
            assert response.status in (200, 201), told
            return told

    async def takes_calls(self) -> None:
        async with asyncio.timeout(READY_WITHIN_S):
            for number in range(len(self.ports)):
                while not await self._is_ready(number):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    async def _is_ready(self, number: int) -> bool:
        """But for the fleet, which nobody publishes here."""
        try:
            async with self.session.get(self.url(number, "/readyz")) as response:
                checks = (await response.json())["checks"]
        except aiohttp.ClientError:
            return False
        return all(there for name, there in checks.items() if name != "fleet")


@asynccontextmanager
async def gateways(
    server: RedisServer,
    data: Path,
    upstream: str,
    *,
    count: int,
    config: str = CONFIG,
    sql_url: str | None = None,
) -> AsyncIterator[Gateways]:
    """They take calls, and are gone afterwards. `sql_url`: a database that is migrated, else a new
    one of SQLite."""
    if sql_url is None:
        put_empty_database(data / "sluice.db")
    file = data / "sluice.toml"
    file.write_text(config.format(base_url=upstream))
    env = environment() | {
        "SLUICE_CONFIG": str(file),
        "SLUICE_DATA": str(data),
        "SLUICE_REDIS_URL": server.url,
        "SLUICE_ADMIN_KEY": ADMIN_KEY,
        "SLUICE_API_KEY": API_KEY,
        "SLUICE_WORKER_SECRET": "worker-secret-canary",
        "SLUICE_SQL_URL": sql_url or f"sqlite:///{data / 'sluice.db'}",
    }
    first = free_port()
    ports = [first]
    while len(ports) < count:
        ports.append(next_free_port(ports[-1]))
    made = Gateways(data, env, ports)
    try:
        async with aiohttp.ClientSession() as made.session:
            for part in ("ledger", *map(str, range(count))):
                made.start(part)
            await made.takes_calls()
            yield made
    finally:
        for part in list(made.processes):
            made.kill9(part)


def next_free_port(after: int) -> int:
    import socket

    for port in range(after + 1, 20_000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise RuntimeError("no free port")
