"""Why a call went where it went: before it, after it, and where it went nowhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisAway

from gateway.call.priced_call import Received
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID
from gateway.decisions import booked
from gateway.decisions import recorder as recording
from gateway.decisions.record import outcome_of
from gateway.server.routes import call_routes
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.console.test_pages import browser, sign_in
from tests.gateway.edge import API_KEY, CHAT, Edge, body, edge
from tests.gateway.outages import ledger
from tests.redis_server import RedisServer

EXPLAIN, ADMIN = "/admin/v1/route/explain", "admin"
OF_NOBODY_BUT_US = {"cogs_usd", "score_usd", "sum"}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def explain(one: Edge, wanted: dict[str, Any], **changes: Any) -> tuple[int, dict[str, Any]]:
    asked = {"url": CHAT, "body": wanted, "key": KEY_ID} | changes
    status, told = await ask(one.app, "POST", EXPLAIN, json.dumps(asked).encode(), ADMIN)
    assert_described(one.app, "POST", EXPLAIN, status, told)
    return status, told


async def tell(one: Edge, rid: str, path: str = "/v1/generations/", key: str = API_KEY) -> Any:
    status, told = await ask(one.app, "GET", f"{path}{rid}", b"", key)
    assert_described(one.app, "GET", f"{path}{rid}", status, told)
    assert status == 200, told
    return told


def without_figures(candidate: dict[str, Any]) -> dict[str, Any]:
    """What a call that is over and one that is not have alike."""
    return {name: value for name, value in candidate.items() if name != "price_usd"}


@pytest.mark.parametrize("tier", ["priority", "default", "flex"])
@pytest.mark.parametrize("warm", [True, False])
async def test_explain_says_what_then_happens(
    one: Edge, redis: Redis, tmp_path: Path, tier: str, warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 30.0)
    one.watch.stop()
    await one.publish_fleet(one.replica(state="WARM" if warm else "STARTING"), others="no node")
    wanted = body(service_tier=tier, stream=False, stream_options=None)
    status, foretold = await explain(one, wanted)
    assert (status, foretold["refusal"]) == (200, None)
    assert not one.upstream.requests and not await one.settled(), "nothing has run"
    calling = asyncio.create_task(one.post(wanted))
    if not warm:
        await one.waits()
        await one.publish_fleet(one.replica(), others="no node")
    response = await calling
    assert response.status == 200
    async with ledger(redis, tmp_path):
        rid = response.headers["x-request-id"]
        await tell(one, rid)
        told = await tell(one, rid, "/admin/v1/requests/", ADMIN)
    for same in ("rule", "policy_revision", "clauses"):
        assert told[same] == foretold[same], same
    assert list(map(without_figures, told["candidates"])) == list(
        map(without_figures, foretold["candidates"])
    )
    assert response.headers["x-sluice-pool"] == foretold["candidates"][0]["pool"]
    assert foretold["candidates"][0]["eligible"]


TWIN, TIES = "tale-twin", 12


async def twins(one: Edge) -> None:
    """A pool like the first one of the edge, so that there are ties."""
    pool = {"model": "tale", "capacity_class": "reserved", "max_ongoing": 64, "cold_start_s": 0.2}
    wanted = json.dumps(pool | {"cost_usd_per_s": "0.000001"}).encode()
    status, told = await ask(one.app, "PUT", f"/admin/v1/pools/{TWIN}", wanted, ADMIN)
    assert status == 200, told
    await one.parts.catalog.refresh()
    await one.publish_fleet(one.replica(), twin=TWIN)


async def test_ties_fall_as_they_were_foretold_and_again_by_the_seed_of_a_call(
    one: Edge, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 30.0)
    for lesson in ("first_token", "steps", "busy", "answer", "prompt"):
        monkeypatch.setattr(one.parts.learner, lesson, lambda *_: None)
    one.watch.stop()
    await twins(one)
    wanted, served, seeds = body(stream=False, stream_options=None), [], []
    for _ in range(TIES):
        foretold = (await explain(one, wanted))[1]
        again = (await explain(one, wanted))[1]
        assert foretold["seed"] == again["seed"], "to look takes nothing"
        response = await one.post(wanted)
        served.append(response.headers["x-sluice-pool"])
        seeds.append(foretold["seed"])
        assert served[-1] == foretold["candidates"][0]["pool"]
    assert len(set(served)) == 2 and len(set(seeds)) == TIES, "there were ties, and they fell"
    for pool, seed in zip(served, seeds, strict=True):
        again = (await explain(one, wanted, seed=seed))[1]
        assert (again["seed"], again["candidates"][0]["pool"]) == (seed, pool)
    async with ledger(redis, tmp_path):
        ours = await tell(one, response.headers["x-request-id"], "/admin/v1/requests/", ADMIN)
    assert ours["seed"] == seeds[-1]


async def test_what_is_foretold_of_any_call_is_what_is_then_decided(one: Edge) -> None:
    """Bit for bit, of many calls, ties between pools among them."""
    pipeline = one.parts.pipeline
    principal = await pipeline.authenticate(f"Bearer {API_KEY}")
    one.watch.stop()
    await twins(one)

    @given(
        tier=st.sampled_from(["default", "priority", "flex", "auto"]),
        words=st.integers(1, 500),
        tokens=st.integers(1, 2048),
        model=st.sampled_from(["tale", "auto"]),
    )
    def law(tier: str, words: int, tokens: int, model: str) -> None:
        wanted = body(
            model=model,
            service_tier=tier,
            max_tokens=tokens,
            messages=[{"role": "user", "content": "word " * words}],
        )
        request = call_routes(one.parts.catalog)[CHAT].parse(json.dumps(wanted).encode())
        received = Received("req_1", one.watch(), {}, request)
        call = pipeline.shape(received, principal).call
        match = pipeline.match(call, request, inf)
        call, _ = pipeline.price(call, match.matched)
        foretold = pipeline.would_decide(call, match)
        made = pipeline._made(call, match, pipeline._seeds.take(), pipeline._plans)
        assert outcome_of(made.decided) == outcome_of(foretold)

    law()


async def test_explain_refuses_what_the_call_would_be_refused_with(one: Edge) -> None:
    status, told = await explain(one, body(model="nobody"))
    assert (status, told["error"]["code"]) == (404, "model_not_found")
    status, told = await explain(one, body(max_tokens=-1))
    assert (status, told["error"]["param"]) == (400, "max_tokens")
    status, told = await explain(one, body(), key="key_none")
    assert (status, told["error"]["code"]) == (404, "not_found")
    status, told = await explain(one, body(), url="/v1/nowhere")
    assert (status, told["error"]["param"]) == (400, "url")
    status, told = await explain(one, body(), body=[])
    assert (status, told["error"]["param"]) == (400, "body")


async def test_clauses_and_terms_stand_beside_what_was_observed(
    one: Edge, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 30.0)
    rid = (await one.post(body(service_tier="flex"))).headers["x-request-id"]
    async with ledger(redis, tmp_path):
        own = await tell(one, rid)
        ours = await tell(one, rid, "/admin/v1/requests/", ADMIN)
    priority, flex = 'req.service_tier == "priority"', 'req.service_tier == "flex"'
    assert (own["rule"], own["refusal"]) == ("flex", None)
    assert own["clauses"] == [{"rule": "flex", "when": flex, "holds": True}]
    assert ours["clauses"] == [
        {"rule": "priority", "when": priority, "holds": False},
        {"rule": "flex", "when": flex, "holds": True},
    ]
    assert own["predicted"]["ttft_s"] > 0 and own["observed"]["ttft_s"] > 0
    assert set(own["predicted"]) == set(own["observed"]) == {"ttft_s"}
    assert set(ours["predicted"]) == set(ours["observed"]) == {"ttft_s", "cogs_usd"}
    for told, known in zip(ours["candidates"], own["candidates"], strict=True):
        assert told.items() >= known.items()
        assert set(told) - set(known) == OF_NOBODY_BUT_US


async def test_page_and_answer_wait_for_a_call_that_has_just_ended(
    one: Edge, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger begins to read only after both were asked for."""
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 30.0)
    rid = (await one.post(body())).headers["x-request-id"]
    async with browser(one) as client:
        await sign_in(client)
        opening = asyncio.create_task(client.get(f"/console/calls/{rid}"))
        asking = asyncio.create_task(tell(one, rid, "/admin/v1/requests/", ADMIN))
        await asyncio.sleep(0.3)
        assert not opening.done() and not asking.done()
        async with ledger(redis, tmp_path):
            page, told = await opening, await asking
    assert page.status_code == 200 and "Where the time went" in page.text
    assert told["candidates"] and "No decision" not in page.text


async def test_call_that_nobody_knows_is_not_waited_for(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 3600.0)
    async with browser(one) as client:
        await sign_in(client)
        old = f"req_{'0' * 32}"
        assert (await client.get(f"/console/calls/{old}")).status_code == 404
    status, _ = await ask(one.app, "GET", f"/admin/v1/requests/{old}", b"", ADMIN)
    assert status == 404


async def test_refused_call_is_told_what_it_would_have_needed(
    one: Edge, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 30.0)
    await one.publish_fleet(others="2 failed starts, next in 9 s", blocked="no node has room")
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (503, "server_is_overloaded")
    foretold = (await explain(one, body()))[1]
    rid = refused.headers["x-request-id"]
    async with ledger(redis, tmp_path):
        own = await tell(one, rid)
        ours = await tell(one, rid, "/admin/v1/requests/", ADMIN)
        async with browser(one) as client:
            await sign_in(client)
            page = (await client.get(f"/console/calls/{rid}")).text
    assert (own["status"], own["error_code"]) == ("refused", "server_is_overloaded")
    assert (own["organization"], own["cost_usd"], own["attempts"]) == (ORGANIZATION_ID, "0.00", [])
    assert own["refusal"] == ours["refusal"] == foretold["refusal"]
    assert own["refusal"]["kind"] == "capacity"
    assert "no node has room" in own["refusal"]["message"]
    assert own["refusal"]["retry_after_s"] > 0
    assert [each["eligible"] for each in own["candidates"]] == [False, False]
    assert "no node has room" in page and "Refused" in page


async def test_refused_call_of_a_tenant_is_nowhere_to_be_found_by_another(
    one: Edge, redis: Redis, tmp_path: Path
) -> None:
    await one.publish_fleet(others="no node", blocked="no node")
    rid = (await one.post(body())).headers["x-request-id"]
    await one.explained(rid)
    assert one.parts.decision_reader.call(rid, ORGANIZATION_ID) is not None
    assert one.parts.decision_reader.call(rid, "org_other") is None


async def test_call_names_its_rule_and_reason_when_its_record_is_gone(
    one: Edge, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record in a hundred is kept; the call stands in the ledger all the same."""
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 0.0)
    monkeypatch.setattr(one.parts.decision_recorder, "add", lambda _: None)
    rid = (await one.post(body())).headers["x-request-id"]
    async with ledger(redis, tmp_path):
        async with asyncio.timeout(60):
            while one.parts.decision_reader.call(rid) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        told = await tell(one, rid)
        ours = await tell(one, rid, "/admin/v1/requests/", ADMIN)
        async with browser(one) as client:
            await sign_in(client)
            page = (await client.get(f"/console/calls/{rid}")).text
    assert (told["rule"], told["candidates"], told["clauses"]) == ("default", [], [])
    assert told["status"] == "answered" and told["policy_revision"] > 0
    words = "warm, the best of 2 candidates"
    assert (ours["rule"], ours["is_canary"], ours["reason"]) == ("default", None, words)
    assert words in page and "<code>default</code>" in page


async def test_records_wait_for_redis_and_what_is_too_much_is_counted(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise RedisAway("away")

    recorder = one.parts.decision_recorder
    monkeypatch.setattr(recording, "publish", away)
    monkeypatch.setattr(recording, "PENDING_MAX", 2)
    rids = [(await one.post(body())).headers["x-request-id"] for _ in range(2)]
    await recorder.flush()
    monkeypatch.undo()
    assert recorder.lost == 0
    for rid in rids:
        assert (await one.explained(rid)).rule == "default"
    monkeypatch.setattr(recording, "BODIES_MAX", 0)
    await one.post(body())
    await recorder.flush()
    assert recorder.lost == 1
