"""Credit over several real gateways: a hundred calls at the last of it, wherever they arrive, and
nobody is overspent; what one gateway is told of credits the others know within seconds."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from billing.db.engine import open_store
from billing.money import nanousd, usd
from billing.verify import verify_all
from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.upstream import fake
from tests.gateway.outages import stopped
from tests.gateway_processes import API_KEY, Gateways, gateways
from tests.redis_server import RedisServer

CALLS = 100
KNOWN_WITHIN_S = 90.0
WORDS = 8
REPORTED = (9_000, 40 * WORDS)
"""Tokens of prompt and of completion: far more than there is and than is asked for."""
LAST_OF_IT = 1_500_000
"""Nano-USD: what some dozen of the calls cost."""
NOW_US = 2**52


@pytest.fixture
async def upstream() -> AsyncIterator[fake.FakeUpstream]:
    def tell(_: fake.Request) -> fake.Script:
        acts: list[fake.Act] = []
        for number in range(WORDS):
            acts += [fake.Send(fake.plain_frame(f"w{number} ")), fake.Pause(0.01)]
        last = fake.plain_frame(finish="stop") + fake.plain_usage(*REPORTED) + fake.DONE
        return fake.Script([*acts, fake.Send(last)])

    async with fake.FakeUpstream(tell) as started:
        yield started


@dataclass
class World:
    """Gateways, and what every answer of theirs has cost."""

    gateways: Gateways
    costs: list[int] = field(default_factory=list)

    async def ask(self, number: int) -> int:
        """The status of one call through one of the gateways."""
        sent = {
            "model": "outside",
            "messages": [{"role": "user", "content": "Tell a story."}],
            "max_tokens": 2 * WORDS,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        named = {"authorization": f"Bearer {API_KEY}"}
        url = self.gateways.url(number, "/v1/chat/completions")
        async with self.gateways.session.post(url, json=sent, headers=named) as response:
            text = await response.text()
        if response.status == 200:
            events = [json.loads(e[6:]) for e in text.split("\n\n") if e.startswith("data: {")]
            self.costs.append(nanousd(events[-1]["usage"]["cost"]))
        elif response.status != 503:
            assert json.loads(text)["error"]["code"] == "insufficient_quota", text
        return response.status

    async def everywhere(self, status: int) -> None:
        """Until every gateway answers so."""
        async with asyncio.timeout(KNOWN_WITHIN_S):
            for number in range(len(self.gateways.ports)):
                while await self.ask(number) != status:  # noqa: ASYNC110 - it is told by polls
                    await asyncio.sleep(0.1)

    async def pays_before(self) -> None:
        path = f"/organizations/{ORGANIZATION_ID}"
        await self.gateways.admin("PATCH", path, {"settlement_mode": "prepaid"})
        await self.everywhere(429)

    async def give(self, grant_id: str, amount_nanousd: int) -> None:
        grant = {
            "id": grant_id,
            "organization": ORGANIZATION_ID,
            "category": "paid",
            "amount_usd": usd(amount_nanousd),
        }
        await self.gateways.admin("POST", "/credits", grant)

    async def comes_to(self, balance_nanousd: int) -> None:
        """What the last calls have cost may still be on its way, where Redis was late."""
        async with asyncio.timeout(KNOWN_WITHIN_S):
            while await self._balance() != balance_nanousd:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def _balance(self) -> int:
        named = {"authorization": f"Bearer {API_KEY}"}
        url = self.gateways.url(1, "/v1/credits")
        async with self.gateways.session.get(url, headers=named) as response:
            return nanousd((await response.json())["balance_usd"])


async def test_g21_a_hundred_calls_over_several_gateways_never_pass_the_credit(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path
) -> None:
    async with gateways(server, tmp_path, upstream.address, count=2) as started:
        world = World(started)
        await world.pays_before()
        credit = sum(world.costs) + LAST_OF_IT
        await world.give("g1", credit)
        await world.everywhere(200)
        seen = Counter(await asyncio.gather(*(world.ask(number) for number in range(CALLS))))
        assert seen[200] and seen[429], seen
        assert sum(world.costs) <= credit
        await world.comes_to(credit - sum(world.costs))

        await world.give("g2", 10**9)
        await world.everywhere(200)
        store = open_store(f"sqlite:///{tmp_path / 'sluice.db'}")
        report = await verify_all(store, now_us=NOW_US, redis=server.client())
        assert report.ok, report.as_text()
        store.close()


async def test_who_pays_before_is_denied_while_redis_is_away_and_served_again_after(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path
) -> None:
    async with gateways(server, tmp_path, upstream.address, count=1) as started:
        world = World(started)
        await world.pays_before()
        await world.give("g1", 10**9)
        await world.everywhere(200)
        with stopped(server):
            statuses = {await world.ask(0) for _ in range(8)}
        assert statuses == {503}
        await world.everywhere(200)
