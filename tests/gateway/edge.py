"""A whole gateway in this process: real Redis, real SQLite, real spool, a fake upstream, no Ray."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from time import time
from typing import Any

from redis.asyncio import Redis

from billing.credits.lines import REVISION_KEY
from billing.decisions.writer import DecisionWriter
from billing.limits import keys
from billing.limits.holds import Holds
from billing.prices.book import Component, PriceRate, PriceVersion, make_book, publish
from billing.queries import DecidedCall, decision_made
from billing.settings import LedgerSettings
from billing.spool.segments import SpoolLineKind, read_lines, segments
from billing.types import SettledCall, decode_settled
from billing.usage.tables import UsageRecord
from gateway.app import create_app
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from gateway.decisions.explained import ExplainedDecision
from gateway.parts import Outside, Parts
from gateway.settings import (
    BootstrapSettings,
    GatewaySettings,
    ModelSettings,
    PoolSettings,
    Settings,
)
from gateway.upstream import fake
from tests.billing.limits.harness import open_shard, scope_state
from tests.empty_database import put_started_database
from tests.redis_server import RedisServer

API_KEY = "sk-sluice-0123456789abcdef"
SHARD = keys.shard_of(ORGANIZATION_ID)
SCOPES = (f"key:{KEY_ID}", f"project:{PROJECT_ID}", f"org:{ORGANIZATION_ID}")
POOLS = ("tale-reserved", "tale-spot", "vectors")
OUTSIDE: dict[str, Any] = {
    "name": "outside",
    "model": "tale",
    "capacity_class": "external",
    "upstream_model": "their-tale",
}
FAR = "far"
"""A model that only servers outside have."""
LARGE = "large"
"""Another one, with four times the context of FAR."""
RANKER, JUDGE = "ranker", "judge"
"""Models that order documents, and that say what may harm, at servers outside."""
SPEAKER = "speaker"
"""A model that speaks a text, sold by the character."""
LISTENER, SCRIBE = "listener", "scribe"
"""Models that write down what is said, sold by the second and by the token."""
PAINTER, SKETCHER = "painter", "sketcher"
"""Models that make images at servers outside: one is sold by the image, one by tokens."""
RETOUCHER = "retoucher"
"""A model that edits images too, sold by both."""
IMAGE_TOKENS = 300
CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
OUTPUT_PRICE = 5_000_000_000
"""Nano-USD per million tokens: 5000 nano-USD a token, so that budgets are easy to reckon."""
SEARCH_UNIT_PRICE = 2_000_000 * 10**6
SECOND_PRICE = 100_000 * 10**6
CHARACTER_PRICE = 15_000 * 10**6
IMAGE_PRICES = {
    "image/1024x1024": 20_000_000,
    "image/1024x1024/high": 90_000_000,
    "image/1024x1536/low": 30_000_000,
    "image/1024x1536/high": 120_000_000,
}
"""Nano-USD of one."""
OUTER_PRICES: dict[str, dict[str, int]] = {
    RANKER: {"input": 10_000_000, "output": 0, "search_unit": SEARCH_UNIT_PRICE},
    JUDGE: {"input": 0, "output": 0},
    LISTENER: {"input": 0, "output": 0, "second": SECOND_PRICE},
    SPEAKER: {"input": 0, "output": 0, "character": CHARACTER_PRICE},
    SCRIBE: {"input": 10_000_000, "output": 20_000_000, "audio_input": 30_000_000},
    PAINTER: {
        **{"input": 0, "output": 0},
        **{name: IMAGE_PRICES[name] * 10**6 for name in IMAGE_PRICES},
    },
    SKETCHER: {"input": 10_000_000, "output": 0, "image_output": 40_000_000},
    RETOUCHER: {
        **{"input": 10_000_000, "image_input": 20_000_000, "output": 0},
        **{name: IMAGE_PRICES[name] * 10**6 for name in IMAGE_PRICES},
    },
}
SETTLED_WITHIN_S = 30.0
QUICK: dict[str, Any] = {
    "idle_timeout_s": 2.0,
    "fleet_poll_s": 0.05,
    "fleet_stale_s": 3600.0,
    "limiter": {"timeout_ms": 2_000.0, "connect_timeout_ms": 10_000.0},
}
"""Unless a test says otherwise: Redis is not away because this machine is busy."""


@dataclass(slots=True)
class Response:
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    sends: int = 0
    is_complete: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error_code(self) -> str | None:
        code: str | None = self.json["error"]["code"]
        return code

    @property
    def events(self) -> list[str]:
        """Payloads of the events of a stream, comments left out."""
        blocks = self.body.decode().split("\n\n")
        return [block.removeprefix("data: ") for block in blocks if block.startswith("data: ")]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [json.loads(event) for event in self.events if event != "[DONE]"]


@dataclass(slots=True)
class Watch:
    """A gateway's clock: this machine's and the seconds that a test lets pass beside it, until the
    test stops it."""

    passed_s: float = 0.0
    stands_at_s: float | None = None

    def __call__(self) -> float:
        return time() + self.passed_s if self.stands_at_s is None else self.stands_at_s

    def stop(self) -> None:
        self.stands_at_s = self()


@dataclass(slots=True)
class Edge:
    app: Any
    parts: Parts
    redis: Redis
    holds: Holds
    upstream: fake.FakeUpstream
    spool_root: Path
    watch: Watch

    @property
    def gateway_id(self) -> str:
        return self.parts.observed.gateway_id

    async def post(
        self,
        body: bytes | dict[str, Any],
        *,
        path: str = CHAT,
        headers: dict[str, str] | None = None,
        twice: Sequence[tuple[str, str]] = (),
        leave: Callable[[Response], Awaitable[None]] | None = None,
    ) -> Response:
        """One call over ASGI; the client leaves when `leave` returns. `twice` are headers beyond
        others of the same name."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = Response()
        unread = [data]

        async def receive() -> dict[str, Any]:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await (leave(response) if leave else asyncio.Event().wait())
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            response.sends += 1
            assert not response.is_complete, "nothing follows the last byte"
            if message["type"] == "http.response.start":
                assert response.status is None, "a response starts once"
                response.status = message["status"]
                response.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                response.body += message["body"]
                response.is_complete = not message["more_body"]
            await asyncio.sleep(0)

        named = [*({"authorization": f"Bearer {API_KEY}"} | (headers or {})).items(), *twice]
        scope = post_scope(path, named)
        async with asyncio.timeout(60):
            await self.app(scope, receive, send)
        return response

    @property
    def breaker_openings(self) -> int:
        return self.parts.observed.breaker.openings

    @property
    def breaker_is_open(self) -> bool:
        return self.parts.observed.breaker.is_open

    async def heals(self) -> None:
        """No breaker has anything against anybody any more: for tests that share a gateway and
        whose servers misbehave."""
        breakers = self.parts.breakers
        breakers._breakers.clear()
        breakers.untold.clear()
        await self.parts.fleet.refresh()

    async def waits(self) -> None:
        """Until a call stands in a waiting room."""
        async with asyncio.timeout(SETTLED_WITHIN_S):
            while not await self.redis.keys("sluice:wait:*"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def post_and_outwait(
        self, wanted: dict[str, Any], *, path: str = CHAT, told: bytes = b""
    ) -> Response:
        """A call whose deadline passes while it waits for a worker, once it was told that much."""
        given_ms = 60_000

        async def outwait(response: Response) -> None:
            await self.waits()
            while told not in response.body:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            self.watch.passed_s += given_ms / 1000
            await asyncio.Event().wait()

        late = {"x-sluice-deadline-ms": str(given_ms)}
        return await self.post(wanted, path=path, headers=late, leave=outwait)

    async def refused(
        self, wrong: bytes | dict[str, Any], *, path: str, headers: dict[str, str] | None = None
    ) -> Response:
        """The answer to a call that is refused before anything was taken for it."""
        response = await self.post(wrong, path=path, headers=headers)
        assert not await self.money_keys()
        assert not self.upstream.requests
        assert not await self.settled()
        return response

    async def publish_fleet(
        self,
        *replicas: dict[str, Any],
        others: str | None = None,
        twin: str | None = None,
        **of_first: Any,
    ) -> None:
        """What the controller would say: the first pool has these replicas, and so have the one for
        vectors and a `twin` of it. The others have none, and cannot start any if `others` says
        why."""
        second = [replica | {"id": f"t-{replica['id']}"} for replica in replicas]
        twins = [{"name": twin, "target": 1, "replicas": second}] if twin else []
        vectors = [replica | {"id": f"v-{replica['id']}"} for replica in replicas]
        fleet = {
            "v": 1,
            "seq": 1,
            "at_ms": round(time() * 1000),
            "pools": [
                {"name": POOLS[0], "target": 1, "replicas": replicas} | of_first,
                {"name": POOLS[1], "target": 0, "replicas": [], "blocked": others},
                {"name": POOLS[2], "target": 1, "replicas": vectors},
                *twins,
            ],
        }
        await self.redis.set("sluice:fleet", json.dumps(fleet))
        await self.parts.fleet.refresh()

    def replica(self, name: str = "r1", state: str = "WARM", address: str = "") -> dict[str, Any]:
        where = address or self.upstream.address
        return {"id": name, "address": where, "state": state, "since_ms": round(time() * 1000)}

    def spooled(self) -> tuple[Counter[str], dict[str, SettledCall]]:
        """Lines per `kind rid`, and every closing record."""
        lines: Counter[str] = Counter()
        closed: dict[str, SettledCall] = {}
        for segment in segments(self.spool_root, self.gateway_id):
            for line in read_lines(segment):
                lines[f"{line.k} {line.r}"] += 1
                if line.k is SpoolLineKind.CLOSED:
                    closed[line.r] = decode_settled(bytes(line.p))
        return lines, closed

    async def explained(self, rid: str) -> ExplainedDecision:
        """Why a call went where it went, once the ledger has what that was made from."""
        parts = self.parts
        await parts.decision_recorder.flush()
        await self.write_decisions()
        made_from = decision_made(parts.ledger, rid)
        assert made_from is not None, "every decision has a record"
        unbooked = DecidedCall(UsageRecord.model_construct(), {}, made_from)
        return parts.decision_reader.explained(unbooked)

    async def write_decisions(self) -> None:
        """What was handed over of decisions and refusals, into SQL."""
        await DecisionWriter(self.redis, self.parts.ledger, LedgerSettings(), now=time).turn()

    async def money_keys(self) -> list[bytes]:
        """Everything about money, rates and holds that Redis has of this organization."""
        found = await self.redis.keys(f"{keys.tag(SHARD)}:*")
        return sorted(key for key in found if key != keys.epoch_key(SHARD).encode())

    async def settled(self, *beside: Edge) -> dict[str, SettledCall]:
        """Laws 1, 2, 4 and 6 after the dust has settled; answers the closing records. `beside` are
        the other gateways of this organization."""
        lines: Counter[str] = Counter()
        closed: dict[str, SettledCall] = {}
        for each in (self, *beside):
            await each._all_given_back()
            accounts, fleet = each.parts.accounts, each.parts.fleet
            assert (accounts.open, accounts.unsettled_count, fleet.in_flight) == ({}, 0, {})
            assert each.parts.placement.outstanding.by_replica == {}
            its_lines, its_closed = each.spooled()
            lines += its_lines
            closed |= its_closed
        assert await self.holds.open_count(SHARD) == 0
        rids = {name.split()[1] for name in lines}
        assert all(lines[f"opened {rid}"] == 1 for rid in rids)
        assert all(lines[f"closed {rid}"] == 1 for rid in rids)
        owed = sum(call.amount_nanousd for call in closed.values())
        for scope in SCOPES:
            money = await self.holds.money(ORGANIZATION_ID, scope)
            assert (money.held_nanousd, money.spent.total_nanousd) == (0, owed), scope
            assert (await scope_state(self.redis, scope, SHARD)).running == 0, scope
        for pool in POOLS:
            assert await self.redis.zcard(f"sluice:wait:{pool}") == 0
        await self._one_settled_record_each(closed)
        await self.upstream.all_hung_up(within_s=SETTLED_WITHIN_S)
        return closed

    async def _all_given_back(self) -> None:
        async with asyncio.timeout(SETTLED_WITHIN_S):
            while self.parts.accounts.unsettled_count or self.parts.accounts.open:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def _one_settled_record_each(self, closed: dict[str, SettledCall]) -> None:
        records: Counter[tuple[str, str]] = Counter()
        for _, record in await self.redis.xrange(keys.usage_key(SHARD)):
            records[record[b"k"].decode(), record[b"r"].decode()] += 1
        assert all(count == 1 for count in records.values())
        assert {rid for kind, rid in records if kind == "settled"} >= set(closed)


def body(**changes: Any) -> dict[str, Any]:
    return {
        "model": "tale",
        "messages": [{"role": "user", "content": "Tell a story."}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 64,
    } | changes


def story(*, frames: int = 4, tokens_a_frame: int = 2, pause_s: float = 0.0) -> fake.Script:
    acts: list[fake.Act] = []
    for number in range(1, frames + 1):
        finish = "stop" if number == frames else None
        data = fake.own_frame(f"word{number} ", number * tokens_a_frame, finish=finish)
        acts += [fake.Send(data)] + ([fake.Pause(pause_s)] if pause_s else [])
    return fake.Script([*acts, fake.Send(fake.DONE)])


def _settings(
    server: RedisServer,
    data: Path,
    gateway: dict[str, Any],
    limits: dict[str, Any],
    outside: Sequence[dict[str, Any]],
) -> Settings:
    pool = {"max_ongoing": 64, "cost_usd_per_s": "0.000001", "cold_start_s": 0.2}
    size = {"context_tokens": 4096, "max_output_tokens": 2048, "size_rank": 1, "quality": 0.5}
    outer_sizes = {FAR: size, LARGE: size | {"context_tokens": 16_384, "quality": 0.6}}
    outer_sizes |= {RANKER: size | {"task": "rerank"}, JUDGE: size | {"task": "moderate"}}
    outer_sizes |= {name: size | {"task": "transcribe"} for name in (LISTENER, SCRIBE)}
    outer_sizes |= {SPEAKER: size | {"task": "speak"}}
    outer_sizes |= {PAINTER: size | {"task": "image"}, SKETCHER: size | {"task": "image"}}
    outer_sizes |= {RETOUCHER: size | {"task": "image", "image_tokens": IMAGE_TOKENS}}
    outer_models = {pool.get("model") for pool in outside}
    return Settings(
        data=data,
        sql_url=f"sqlite:///{data / 'sluice.db'}",
        redis_url=server.url,
        api_key=API_KEY,
        admin_key="admin",
        worker_secret="worker-secret",
        gateway=GatewaySettings(**QUICK | gateway),
        bootstrap=BootstrapSettings(**limits),
        models=(
            ModelSettings(name="tale", **size),
            ModelSettings(name="free", **size),
            ModelSettings(name="vectors", task="embed", **size | {"context_tokens": 64}),
            *(ModelSettings(name=n, **of) for n, of in outer_sizes.items() if n in outer_models),
        ),
        pools=(
            PoolSettings(name=POOLS[0], model="tale", capacity_class="reserved", **pool),
            PoolSettings(name=POOLS[1], model="tale", capacity_class="spot", **pool),
            PoolSettings(name=POOLS[2], model="vectors", capacity_class="reserved", **pool),
            *(PoolSettings(**OUTSIDE | pool) for pool in outside),
        ),
    )


def _prices(now_us: int, dearer: Mapping[str, int] | None = None) -> bytes:
    times = dearer or {}
    parts = {Component.INPUT: 1_000_000_000, Component.OUTPUT: OUTPUT_PRICE}
    rates = tuple(
        PriceRate(
            model=model,
            tier=tier,
            component=component,
            nanousd_per_mtok=price * times.get(model, 1),
        )
        for model in ("tale", "vectors", FAR, LARGE)
        for tier in ("default", "priority", "flex")
        for component, price in parts.items()
    )
    rates += tuple(
        PriceRate(model, "default", component, price)
        for model, prices in OUTER_PRICES.items()
        for component, price in prices.items()
    )
    return publish(make_book([PriceVersion("pv_1", 0, None, rates)]), now_us)


_DESCRIPTION: list[dict[str, Any]] = []


def _described(describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the first application that was asked says: its routes are the same in each, and to tell
    of them takes ten times as long as to start it."""
    if not _DESCRIPTION:
        _DESCRIPTION.append(describe())
    return _DESCRIPTION[0]


def post_scope(path: str, headers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What a server tells an ASGI application of a POST."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


@asynccontextmanager
async def edge(
    server: RedisServer,
    redis: Redis,
    data: Path,
    *,
    gateway: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    behaviour: fake.Behaviour = lambda _: story(),
    outer: str | None = None,
    outer_pool: dict[str, Any] | None = None,
    outer_pools: Sequence[dict[str, Any]] = (),
    dearer: Mapping[str, int] | None = None,
    environment: dict[str, str] | None = None,
) -> AsyncIterator[Edge]:
    """A gateway that is ready, with one warm replica that tells `story`; and, cheaper than that, a
    server outside at the base URL `outer`, whose pool is otherwise as `outer_pool` says: of the
    model FAR it is the only one but for those in `outer_pools`. A model in
    `dearer` costs the tenant so many times as much as the others."""
    begun = _settings(server, data, {}, limits or {}, ())
    put_started_database(data / "sluice.db", begun, round(time() * 1e6))
    await redis.set("sluice:prices", _prices(round(time() * 1e6), dearer))
    await redis.set(REVISION_KEY, 1)
    holds = Holds(redis)
    await open_shard(holds, shard=SHARD)
    watch = Watch()
    outside = Outside(
        clock=watch, rng=Random(1), entropy=Random(2).randbytes, environment=environment or {}
    )
    first = [{"base_url": outer} | (outer_pool or {})] if outer else []
    settings = _settings(server, data, gateway or {}, limits or {}, [*first, *outer_pools])
    app = create_app(settings, outside)
    app.openapi = partial(_described, app.openapi)
    async with fake.FakeUpstream(behaviour) as upstream, app.router.lifespan_context(app):
        running = Edge(app, app.state.parts, redis, holds, upstream, data / "spool", watch)
        await running.publish_fleet(running.replica())
        async with asyncio.timeout(30):
            while not running.parts.accounts.is_ready:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield running


@asynccontextmanager
async def another(first: Edge) -> AsyncIterator[Edge]:
    """One more gateway beside it, over the same Redis, SQLite, servers and clock."""
    parts = first.parts
    own = parts.settings.gateway
    settings = parts.settings.model_copy(
        update={"gateway": own.model_copy(update={"port": own.port + 1})}
    )
    outside = replace(parts.outside, rng=Random(3), entropy=Random(4).randbytes)
    app = create_app(settings, outside)
    app.openapi = partial(_described, app.openapi)
    async with app.router.lifespan_context(app):
        running = replace(first, app=app, parts=app.state.parts)
        await running.parts.fleet.refresh()
        async with asyncio.timeout(30):
            while not running.parts.accounts.is_ready:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield running
