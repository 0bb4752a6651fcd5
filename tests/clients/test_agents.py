"""Coding agents through the gateway: each works on a file with its own tools, over several turns,
at a server outside that is scripted; what is billed is what that server said it used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.upstream import fake
from tests.clients import agent
from tests.clients.agent import Home
from tests.clients.scripted import (
    CACHED_USD_PER_MTOK,
    INPUT_USD_PER_MTOK,
    OUTPUT_USD_PER_MTOK,
    Calls,
    Model,
    Says,
    Turn,
)
from tests.gateway_processes import Gateways, gateways
from tests.journeys.calls import nano
from tests.redis_server import RedisServer
from tests.stack import Tenant

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("agents"),
]

CONFIG = f"""
[gateway]
lease_s = 6.0
renew_s = 0.3
[ledger]
spool_interval_s = 0.5
linger_ms = 0
[[models]]
name = "outside"
context_tokens = 400000
max_output_tokens = 64000
size_rank = 1
quality = 0.5
[[pools]]
name = "outside"
model = "outside"
upstream_model = "theirs"
capacity_class = "external"
base_url = "{{base_url}}/v1"
max_ongoing = 64
[[prices]]
model = "outside"
tier = "default"
input_usd_per_mtok = "{INPUT_USD_PER_MTOK}"
cached_input_usd_per_mtok = "{CACHED_USD_PER_MTOK}"
output_usd_per_mtok = "{OUTPUT_USD_PER_MTOK}"
"""
SECRET = "the fox has 17 eggs"
PROMPT = "Read note.txt and write what it says to copy.txt."
LAST = "I copied the note about the fox."
BOOKED_WITHIN_S, LOOK_EVERY_S = 60.0, 0.1


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.write("work/note.txt", SECRET + "\n")
    return made


@dataclass
class World:
    """A gateway, its ledger, and the server outside."""

    gateways: Gateways
    upstream: fake.FakeUpstream
    tenants: int = 0

    @property
    def base_url(self) -> str:
        return self.gateways.url(0, "")

    async def tenant(self) -> Tenant:
        self.tenants += 1
        slug, admin = f"t{self.tenants}", self.gateways.admin
        organization = await admin("POST", "/organizations", {"name": slug, "slug": slug})
        wanted = {"organization": organization["id"], "name": slug}
        project = await admin("POST", "/projects", wanted)
        key = await admin("POST", "/keys", {"project": project["id"], "name": slug})
        return Tenant(organization["id"], project["id"], key["id"], key["secret"])

    async def booked(self, tenant: Tenant, count: int) -> list[dict[str, Any]]:
        """The tenant's calls that the ledger has, once it has so many."""
        path = f"/requests?organization={tenant.organization}&limit=1000"
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(BOOKED_WITHIN_S):
            while len(found) < count:
                await asyncio.sleep(LOOK_EVERY_S)
                found = (await self.gateways.admin("GET", path))["data"]
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    data = tmp_path_factory.mktemp("gateway")
    async with AsyncExitStack() as parts:
        server = parts.enter_context(RedisServer(tmp_path_factory.mktemp("redis")))
        upstream = await parts.enter_async_context(fake.FakeUpstream(Model(())))
        opened = gateways(server, data, upstream.address, count=1, config=CONFIG)
        yield World(await parts.enter_async_context(opened), upstream)


async def assert_billed(world: World, tenant: Tenant, model: Model) -> None:
    """Each call by what the server said it used, to the nano-dollar, and no other call."""
    calls = await world.booked(tenant, len(model.reported))
    assert {call["status"] for call in calls} == {"answered"}
    assert {call["usage_source"] for call in calls} == {"exact"}
    used = [tuple(call["usage"].values()) for call in calls]
    assert sorted(used) == sorted(model.reported)
    prices = [
        nano(usd) // 10**6 for usd in (INPUT_USD_PER_MTOK, CACHED_USD_PER_MTOK, OUTPUT_USD_PER_MTOK)
    ]
    for call in calls:
        parts = zip(call["usage"].values(), prices, strict=True)
        assert nano(call["cost_usd"]) == sum(count * price for count, price in parts)


def assert_copied(home: Home, model: Model) -> None:
    assert (home.work / "copy.txt").read_text().strip() == SECRET
    assert any(SECRET in result for result in model.results())
    assert all(body["model"] == "theirs" for body in model.told)


@pytest.mark.client(
    "opencode-linux-x64-baseline", "It holds a conversation of several turns with tools."
)
async def test_opencode_completes_a_conversation_with_tools(world: World, home: Home) -> None:
    model = Model(
        [
            Calls([("read", {"filePath": str(home.work / "note.txt")})]),
            Calls([("bash", {"command": "cp note.txt copy.txt", "description": "Copies"})]),
            Says(LAST),
        ]
    )
    world.upstream.behaviour, tenant = model, await world.tenant()
    ended = await agent.opencode(home, world.base_url, tenant.secret, PROMPT)
    assert ended.returncode == 0, ended.output + ended.errors
    assert LAST in "".join(e.get("part", {}).get("text", "") for e in ended.events)
    assert_copied(home, model)
    await assert_billed(world, tenant, model)


@pytest.mark.client(
    "@anthropic-ai/claude-code", "It holds a conversation of several turns with tools."
)
async def test_claude_code_completes_a_conversation_with_tools(world: World, home: Home) -> None:
    note, copy = str(home.work / "note.txt"), str(home.work / "copy.txt")
    turns: list[Turn] = [
        Calls([("Read", {"file_path": note})], thought="I read it first."),
        Calls([("Write", {"file_path": copy, "content": SECRET})]),
        Calls(
            [
                ("Bash", {"command": "cat copy.txt", "description": "Looks"}),
                ("Bash", {"command": "cat nowhere.txt", "description": "Fails"}),
            ]
        ),
        Says(LAST),
    ]
    model = Model(turns)
    world.upstream.behaviour, tenant = model, await world.tenant()
    ended = await agent.claude_code(home, world.base_url, tenant.secret, PROMPT)
    assert ended.returncode == 0, ended.output + ended.errors
    assert ended.events[-1]["result"] == LAST
    assert_copied(home, model)
    assert any("Error: " in result for result in model.results()), "of the tool that failed"
    assert all(body["reasoning_effort"] for body in model.offered)
    assert model.thoughts() == ["I read it first."], "told, and sent back"
    await assert_billed(world, tenant, model)


@pytest.mark.client("@openai/codex", "It holds a conversation of several turns with tools.")
async def test_codex_completes_a_conversation_with_tools(world: World, home: Home) -> None:
    model = Model(
        [
            Calls([("exec_command", {"cmd": "cat note.txt"})], thought="I read it first."),
            Calls([("exec_command", {"cmd": "cp note.txt copy.txt"})]),
            Says(LAST),
        ]
    )
    world.upstream.behaviour, tenant = model, await world.tenant()
    ended = await agent.codex(home, world.base_url, tenant.secret, PROMPT)
    assert ended.returncode == 0, ended.output + ended.errors
    said = [e["item"].get("text") for e in ended.events if e["type"] == "item.completed"]
    assert LAST in said
    assert_copied(home, model)
    await assert_billed(world, tenant, model)
