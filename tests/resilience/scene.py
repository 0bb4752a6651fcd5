"""A real gateway over real Redis and SQLite, before three misbehaving providers, and its books.

`first` and `second` serve the model FAR, `first` for less, so it is asked first. `larger` serves
the model LARGE.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

import httpx2 as httpx
from redis.asyncio import Redis

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.report import Outcome
from billing.prices.book import read_published
from billing.types import Attempt, SettledCall, encode
from billing.verify import verify_all
from tests.gateway.edge import FAR, LARGE, OUTPUT_PRICE, Edge, Response, another, body, edge
from tests.gateway.policies.stored import HEAD
from tests.redis_server import RedisServer
from tests.resilience.behaviours import WORDS, Behaviour, Provider

ADMIN = {"authorization": "Bearer admin"}
INPUT_PRICE = 1_000_000_000
PRICES_IN_SQL = "I4 amounts_rerate"
"""The one check that has no ground here: the price version is in Redis alone."""
FIRST, SECOND, LARGER = "first", "second", "larger"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the caller saw of one call."""

    response: Response
    is_streamed: bool

    @property
    def rid(self) -> str:
        return self.response.headers["x-request-id"]

    @property
    def status(self) -> int:
        assert self.response.status is not None
        return self.response.status

    @property
    def error(self) -> dict[str, Any] | None:
        """Of a refusal, or of the last event of a stream that could not be saved."""
        documents = self._chunks if self._is_stream else [self.response.json]
        errors = [document["error"] for document in documents if "error" in document]
        assert len(errors) <= 1, "an answer fails once"
        return errors[0] if errors else None

    @property
    def model(self) -> str:
        """The one that answered, as its caller is told."""
        document = self._chunks[0] if self._is_stream else self.response.json
        return str(document["model"])

    @property
    def text(self) -> str:
        if not self._is_stream:
            return str(self.response.json["choices"][0]["message"]["content"])
        deltas = [choice["delta"] for chunk in self._chunks for choice in chunk.get("choices", ())]
        return "".join(delta.get("content") or "" for delta in deltas)

    @property
    def finish_reason(self) -> str | None:
        if not self._is_stream:
            reason: str | None = self.response.json["choices"][0]["finish_reason"]
            return reason
        choices = [choice for chunk in self._chunks for choice in chunk.get("choices", ())]
        reasons = [each["finish_reason"] for each in choices if each["finish_reason"]]
        assert len(reasons) <= 1, "an answer ends once"
        return reasons[0] if reasons else None

    @property
    def is_done(self) -> bool:
        """Whether the stream said that it is complete, or the document is."""
        if not self._is_stream:
            return self.status == 200
        return self.response.events[-1] == "[DONE]"

    @property
    def usage(self) -> dict[str, Any]:
        documents = self._chunks if self._is_stream else [self.response.json]
        (used,) = [each["usage"] for each in documents if each.get("usage")]
        assert isinstance(used, dict)
        return used

    @property
    def _is_stream(self) -> bool:
        return self.response.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def _chunks(self) -> list[dict[str, Any]]:
        return self.response.chunks


@dataclass
class Scene:
    edge: Edge
    first: Provider
    second: Provider
    larger: Provider
    beside: tuple[Edge, ...] = ()
    """More gateways, where a test has several."""
    booked: set[str] = field(default_factory=set)

    @property
    def gateways(self) -> tuple[Edge, ...]:
        return (self.edge, *self.beside)

    async def call(self, *, stream: bool, gateway: int = 0, **changes: Any) -> Seen:
        """One call of FAR, whole or streamed. `headers` go beside, the rest into the body."""
        headers = changes.pop("headers", None)
        options = {"include_usage": True} if stream else None
        wanted = body(model=FAR, stream=stream, stream_options=options) | changes
        return Seen(await self.gateways[gateway].post(wanted, headers=headers), stream)

    def asked(self) -> tuple[int, int, int]:
        """Requests that came to `first`, `second` and `larger`."""
        return self.first.asked, self.second.asked, self.larger.asked

    async def breaker(self, pool: str, gateway: int = 0) -> dict[str, Any]:
        """As `/admin/v1/fleet` shows it."""
        fleet = (await self.shows("/admin/v1/fleet", gateway)).json()
        (shown,) = [each for each in fleet["pools"] if each["name"] == pool]
        breaker: dict[str, Any] = shown["breaker"]
        return breaker

    async def shows(self, path: str, gateway: int = 0) -> httpx.Response:
        """To an operator."""
        transport = httpx.ASGITransport(app=self.gateways[gateway].app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            answer = await http.get(path, headers=ADMIN)
        assert answer.status_code == 200, answer.text
        return answer

    async def policy(self, route: str) -> None:
        """Have this route, in YAML, be the default of the active policy."""
        document = f"{HEAD}rules: []\ndefault: {{route: {route}}}\n"
        transport = httpx.ASGITransport(app=self.edge.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            sent = {"document": document, "comment": "a scenario"}
            made = await http.post("/admin/v1/policies", json=sent, headers=ADMIN)
            assert made.status_code == 201, made.text
            path = f"/admin/v1/policies/{made.json()['version']}/activate"
            active = await http.post(path, json={"comment": "a scenario"}, headers=ADMIN)
            assert active.status_code == 200, active.text
        for each in self.gateways:
            await each.parts.policy_keeper.refresh()

    async def passes(self, seconds: float) -> None:
        """The gateway's clock, which stands, goes on by so much, and it looks at its fleet."""
        watch = self.edge.watch
        assert watch.stands_at_s is not None, "a clock that runs is not moved"
        watch.stands_at_s += seconds
        for each in self.gateways:
            await each.parts.fleet.refresh()

    async def attempts(self) -> list[Attempt]:
        """Of all calls."""
        return [each for call in (await self.books()).values() for each in call.attempts]

    async def books(self) -> dict[str, SettledCall]:
        """Settled and booked: every call once, no hold, lease, permit or slot open, every law of
        the ledger true. Answers the calls by id."""
        settled = await self.edge.settled(*self.beside)
        for provider in (self.first, self.second, self.larger):
            await provider.all_hung_up(within_s=30)
        raw: Any = await self.edge.parts.redis.get("sluice:prices")
        with self.edge.parts.ledger.write() as conn:
            for rid, call in settled.items():
                if rid in self.booked:
                    continue
                self.booked.add(rid)
                record = Record(0, f"{len(self.booked)}-0", "settled", rid, encode(call))
                read = booking.read([record], read_published(raw), call.ended_us)
                assert not booking.book(conn, read).failures
        report = await verify_all(self.edge.parts.ledger, now_us=round(time() * 1e6))
        broken = [each for each in report.checks if each.outcome is Outcome.BROKEN]
        assert all(each.name == PRICES_IN_SQL for each in broken), broken
        return settled

    async def charged(self, seen: Seen, words: int = len(WORDS)) -> SettledCall:
        """The one call, charged for its prompt and for so many words delivered; free where no word
        was."""
        call = (await self.books())[seen.rid]
        assert call.usage.output == words
        assert call.amount_nanousd == price_nanousd(call) if words else not call.amount_nanousd
        return call


def price_nanousd(call: SettledCall) -> int:
    """What its usage costs the tenant: one price for the prompt and one for the answer."""
    used = call.usage
    prompt = used.input + used.cached_input
    return (prompt * INPUT_PRICE + used.output * OUTPUT_PRICE) // 1_000_000


def outcomes(call: SettledCall) -> list[tuple[str, str]]:
    """Of its attempts, in order: the pool and how it went."""
    return [(attempt.pool, attempt.outcome) for attempt in call.attempts]


@asynccontextmanager
async def scene(
    server: RedisServer,
    redis: Redis,
    data: Path,
    *,
    first: Sequence[Behaviour] = (),
    pools: dict[str, dict[str, Any]] | None = None,
    only_first: bool = False,
    gateways: int = 1,
    dearer: Mapping[str, int] | None = None,
    **settings: Any,
) -> AsyncIterator[Scene]:
    """`first` is how the cheaper provider behaves, request by request; the others behave well.
    `pools` has more keys of a pool by its name; `settings` are the gateway's own."""
    async with Provider() as one, Provider() as two, Provider() as three:
        one.next.extend(first)
        served = {FIRST: (one, FAR), SECOND: (two, FAR), LARGER: (three, LARGE)}
        if only_first:
            del served[SECOND]
        declared = [
            {
                "name": name,
                "model": model,
                "base_url": provider.address,
                "cost_output_nanousd_per_mtok": 100_000_000 * number,
            }
            | (pools or {}).get(name, {})
            for number, (name, (provider, model)) in enumerate(served.items(), 1)
        ]
        outside = {"outer_pools": declared, "dearer": dearer}
        async with (
            edge(server, redis, data, gateway=settings, **outside) as running,
            AsyncExitStack() as stack,
        ):
            more = [await stack.enter_async_context(another(running)) for _ in range(gateways - 1)]
            yield Scene(running, one, two, three, tuple(more))
