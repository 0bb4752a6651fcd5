"""Accounts with several keys: which key a call goes with, rotation, and that no key is told."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.costs.attempts import costs_of
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.money import usd
from billing.prices.book import read_published
from billing.types import encode
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import FAR, Edge, Response, another, body, edge, story
from tests.redis_server import RedisServer

A, B, LATE = (f"SLUICE_PROVIDER_KEY_{name}" for name in ("A", "B", "LATE"))
SECRETS = {A: "sk-provider-aaaa1111", B: "sk-provider-bbbb2222"}
WHOLE = body(model=FAR, stream=False, stream_options=None)
REVOKED = fake.refusal(401, {"message": "Incorrect API key.", "code": "invalid_api_key"})


@dataclass
class Acme:
    """A gateway, and a provider that refuses some keys."""

    edge: Edge
    server: fake.FakeUpstream
    refused: dict[str, fake.Script]

    async def admin(self, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
        raw = b"" if sent is None else json.dumps(sent).encode()
        status, answer = await ask(self.edge.app, method, f"/admin/v1{path}", raw, "admin")
        if status == 200:
            assert_described(self.edge.app, method, f"/admin/v1{path}", status, answer)
        return status, answer

    async def row(self) -> Any:
        status, page = await self.admin("GET", "/providers")
        assert status == 200
        return page["data"][0]

    @property
    def keys_used(self) -> Counter[str]:
        return Counter(key_of(request) for request in self.server.requests)


def key_of(request: Any) -> str:
    name: str = request.headers["authorization"].removeprefix("Bearer ")
    return name


@pytest.fixture
async def acme(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Acme]:
    refused: dict[str, fake.Script] = {}
    pool = {"model": FAR, "provider": "acme", "cost_input_usd_per_mtok": "1"}
    async with (
        fake.FakeUpstream(lambda request: refused.get(key_of(request), story())) as server,
        edge(
            redis_server,
            redis,
            tmp_path,
            outer=server.address,
            outer_pool=pool,
            environment=SECRETS,
        ) as running,
    ):
        yield Acme(running, server, refused)


def keys(**shares: int) -> dict[str, Any]:
    return {"keys": [{"name": f"SLUICE_PROVIDER_KEY_{k}", "share": n} for k, n in shares.items()]}


async def test_calls_go_with_each_key_by_its_share_and_the_list_says_how_they_are(
    acme: Acme,
) -> None:
    assert (await acme.row())["is_account"] is False
    status, row = await acme.admin("PUT", "/providers/acme", keys(A=3, B=1))
    assert (status, row["state"], row["pools"]) == (200, "closed", ["outside"])
    for _ in range(8):
        assert (await acme.edge.post(body(model=FAR))).status == 200
    assert acme.keys_used == {SECRETS[A]: 6, SECRETS[B]: 2}
    assert [(key["name"], key["is_set"]) for key in (await acme.row())["keys"]] == [
        (A, True),
        (B, True),
    ]


async def test_the_list_says_what_was_spent_with_each_key(acme: Acme) -> None:
    acme.server.scripts.append(story())
    await acme.edge.post(body(model=FAR))
    await acme.admin("PUT", "/providers/acme", keys(A=1, B=1))
    for _ in range(3):
        await acme.edge.post(body(model=FAR))
    calls = list((await acme.edge.settled()).values())
    raw: Any = await acme.edge.redis.get("sluice:prices")
    records = [Record(0, f"{n}-0", "settled", c.rid, encode(c)) for n, c in enumerate(calls, 1)]
    with acme.edge.parts.ledger.write() as conn:
        batch = booking.read(records, read_published(raw), max(c.ended_us for c in calls))
        assert not booking.book(conn, batch).failures
    spent: Counter[str] = Counter()
    for call in calls:
        (cost,) = costs_of(call)
        spent[cost.replica] += cost.bought_nanousd
    bare, first, second = (spent[f"external:outside{key}"] for key in ("", f"/{A}", f"/{B}"))
    assert 0 < bare == second == first / 2
    row = await acme.row()
    assert [key["spend_usd"] for key in row["keys"]] == [usd(first), usd(second)]
    assert row["spend_usd"] == usd(bare + first + second), "without a key, too"
    await acme.admin("DELETE", f"/providers/acme/keys/{A}")
    row = await acme.row()
    assert [key["spend_usd"] for key in row["keys"]] == [usd(second)]
    assert row["spend_usd"] == usd(bare + first + second)


async def test_a_key_that_is_revoked_costs_no_call_and_is_shown_with_its_next_probe(
    acme: Acme,
) -> None:
    await acme.admin("PUT", "/providers/acme", keys(A=1, B=1))
    acme.refused[SECRETS[A]] = REVOKED
    for _ in range(6):
        assert (await acme.edge.post(body(model=FAR))).status == 200
    assert acme.keys_used[SECRETS[A]] == 1, "its breaker is open for all pools of the account"
    row = await acme.row()
    first, second = row["keys"]
    assert (first["state"], first["reason"]) == ("open", "refused_us") and first["next_probe_at"]
    assert (second["state"], row["state"]) == ("closed", "closed")
    acme.refused[SECRETS[B]] = REVOKED
    assert (await acme.edge.post(body(model=FAR))).status == 503
    assert (await acme.row())["state"] == "open"


async def test_a_key_that_is_busy_rests_alone_and_the_other_one_takes_the_call(
    acme: Acme,
) -> None:
    await acme.admin("PUT", "/providers/acme", keys(A=1, B=1))
    acme.refused[SECRETS[A]] = fake.refusal(429, {"message": "Slow down."})
    for _ in range(4):
        assert (await acme.edge.post(body(model=FAR))).status == 200
    row = await acme.row()
    assert (row["keys"][0]["state"], row["state"]) == ("cooling", "closed")
    assert acme.keys_used[SECRETS[A]] == 1


async def test_rotation_loses_no_call_and_the_new_key_is_used_at_once_by_every_gateway(
    acme: Acme, tmp_path: Path
) -> None:
    await acme.admin("PUT", "/providers/acme", keys(A=1))
    acme.refused[SECRETS[A]] = story(frames=4, pause_s=0.1)
    async with another(acme.edge) as second:
        running = asyncio.create_task(acme.edge.post(body(model=FAR)))
        async with asyncio.timeout(30):
            while not acme.server.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        folder = tmp_path / "provider-keys"
        folder.mkdir()
        (folder / LATE).write_text("sk-provider-late3333\n")
        status, row = await acme.admin("PUT", f"/providers/acme/keys/{LATE}", {"share": 2})
        assert (status, [key["name"] for key in row["keys"]]) == (200, [A, LATE])
        status, row = await acme.admin("DELETE", f"/providers/acme/keys/{A}")
        assert (status, [key["is_set"] for key in row["keys"]]) == (200, [True])
        acme.refused[SECRETS[A]] = REVOKED
        await second.parts.catalog.refresh()
        for each in (acme.edge, second):
            assert (await each.post(body(model=FAR))).status == 200
        last: Response = await running
        assert last.status == 200 and last.events[-1] == "[DONE]", "it ends with the key it has"
        assert acme.keys_used == {SECRETS[A]: 1, "sk-provider-late3333": 2}


async def test_a_limit_of_a_key_sends_calls_on_to_another_one(acme: Acme) -> None:
    limited = {"name": A, "share": 9, "requests_per_minute": 2}
    await acme.admin("PUT", "/providers/acme", {"keys": [limited, {"name": B}]})
    for _ in range(5):
        assert (await acme.edge.post(body(model=FAR))).status == 200
    assert acme.keys_used == {SECRETS[A]: 2, SECRETS[B]: 3}


async def test_no_key_is_in_sql_a_log_an_answer_or_redis(
    acme: Acme, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [await acme.admin("PUT", "/providers/acme", keys(A=1, B=1))]
    acme.refused |= {
        SECRETS[A]: fake.refusal(402, {"message": f"No money. Your key was {SECRETS[A]}."}),
        SECRETS[B]: fake.refusal(500, {"message": f"Broken by {SECRETS[B]}."}),
    }
    told = [(await acme.edge.post(WHOLE)).body.decode() for _ in range(3)]
    for method, path, sent in (
        ("POST", "/providers/acme/check", {"key": A}),
        ("GET", "/providers/acme", None),
        ("GET", "/fleet", None),
        ("DELETE", "/providers/acme", None),
    ):
        answers.append(await acme.admin(method, path, sent))
        assert answers[-1][0] == 200, answers[-1]
    assert answers[1][1]["ok"] is False and answers[1][1]["key"] == A
    database = "\n".join(sqlite3.connect(tmp_path / "sluice.db").iterdump())
    everything = _files(tmp_path)
    redis = [await acme.edge.redis.dump(key) for key in await acme.edge.redis.keys("*")]
    for secret in SECRETS.values():
        assert secret not in database and secret not in caplog.text
        assert secret not in json.dumps(answers) + "".join(told)
        assert not any(secret.encode() in (each or b"") for each in redis)
        assert secret.encode() not in everything


def _files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_what_may_not_be_sent_or_is_not_there_is_refused_at_its_field(acme: Acme) -> None:
    for path, sent, param in (
        ("", {"keys": [{"name": "sk-proj-1234"}]}, "keys.0.name"),
        ("", {"keys": [{"name": "SLUICE_SQL_URL"}]}, "keys.0.name"),
        ("", {"keys": [{"name": A}, {"name": A}]}, "keys.1.name"),
        ("", {"keys": [{"name": A, "share": 0}]}, "keys.0.share"),
        ("", {"keys": [{"name": A, "secret": "sk"}]}, "keys.0.secret"),
        ("/keys/SLUICE_ADMIN_KEY", {}, "key"),
    ):
        status, answer = await acme.admin("PUT", f"/providers/acme{path}", sent)
        assert (status, answer["error"]["param"]) == (400, param), answer
    await acme.admin("PUT", "/providers/acme", keys(A=1))
    for method, path in (
        ("GET", "/providers/nobody"),
        ("DELETE", "/providers/nobody"),
        ("PUT", f"/providers/nobody/keys/{A}"),
        ("DELETE", f"/providers/acme/keys/{B}"),
        ("POST", "/providers/nobody/check"),
    ):
        assert (await acme.admin(method, path, {}))[0] == 404, path
