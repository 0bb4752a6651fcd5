"""A provider that refuses us: its operator sees why, and a tenant reads a 503 in our own words."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.prices.book import read_published
from billing.types import encode
from gateway.supervisor.opening import blocked_pools
from gateway.upstream import fake
from tests.gateway.edge import API_KEY, FAR, Edge, Response, body, edge
from tests.gateway.served import served
from tests.redis_server import RedisServer

VARIABLE, KEY = "SLUICE_PROVIDER_KEY_FAR", "sk-provider-5Jq8wXz"
ADMIN = {"authorization": "Bearer admin"}
WHOLE = body(model=FAR, stream=False, stream_options=None)
OURS = (401, 402, 403, 404, 405, 407, 409, 421, 423, 424, 425, 451, 301)
ACCOUNT = f"Your account acct-77 has run dry. Your key was {KEY}."
FAULT = fake.refusal(402, {"message": ACCOUNT, "code": "billing_hard_limit_reached"})
GONE = "http://127.0.0.1:9/v1"


@dataclass
class Two:
    """A gateway, and the server of the model that only it has."""

    edge: Edge
    server: fake.FakeUpstream

    async def generation(self, response: Response) -> str:
        """The call as its tenant is told of it."""
        path = f"/v1/generations/{response.headers['x-request-id']}"
        found = await self.get(path, {"authorization": f"Bearer {API_KEY}"})
        assert found.status_code == 200, found.text
        told: str = found.text
        return told

    async def get(self, path: str, named: dict[str, str] = ADMIN) -> Any:
        transport = httpx.ASGITransport(app=self.edge.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            return await http.get(path, headers=named)

    async def later(self, seconds: float = 200.0) -> None:
        """Its breaker lets a probe through by then."""
        self.edge.watch.passed_s += seconds
        await self.edge.parts.fleet.refresh()

    async def explained(self, response: Response) -> dict[str, Any]:
        """The call as the admin API tells it, once it is booked."""
        raw: Any = await self.edge.parts.redis.get("sluice:prices")
        for call in (await self.edge.settled()).values():
            with self.edge.parts.ledger.write() as conn:
                record = Record(0, "1-0", "settled", call.rid, encode(call))
                assert not booking.book(
                    conn, booking.read([record], read_published(raw), call.ended_us)
                ).failures
        found = await self.get(f"/admin/v1/requests/{response.headers['x-request-id']}")
        assert found.status_code == 200, found.text
        told: dict[str, Any] = found.json()
        return told


@pytest.fixture
async def two(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Two]:
    pool = {"model": FAR, "api_key_env": VARIABLE}
    async with (
        fake.FakeUpstream(lambda _: FAULT) as server,
        edge(
            redis_server,
            redis,
            tmp_path,
            outer=server.address,
            outer_pool=pool,
            environment={VARIABLE: KEY},
        ) as running,
    ):
        yield Two(running, server)


def assert_silent(text: str) -> None:
    assert "acct-77" not in text and "run dry" not in text and KEY not in text, text


async def test_fault_is_seen_by_operators_and_by_nobody_else(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    response = await two.edge.post(WHOLE)
    assert (response.status, response.error_code) == (503, "provider_misconfigured")
    assert int(response.headers["retry-after"]) >= 1
    assert_silent(response.body.decode())
    told = await two.explained(response)
    (attempt,) = told["attempts"]
    assert (attempt["outcome"], attempt["status"]) == ("misconfigured", 402)
    assert "Your account acct-77 has run dry. Your key was [key]" in attempt["detail"]
    assert KEY not in json.dumps(told)
    assert len(two.server.requests) == 1, "it is not asked again by the same call"
    (line,) = [r.getMessage() for r in caplog.records if "its server answered" in r.getMessage()]
    assert line.startswith("pool outside: its server answered 402: ") and KEY not in line
    metrics = (await two.get("/metrics")).text
    assert 'sluice_upstream_faults_total{pool="outside",status="402"} 1.0' in metrics
    generation = await two.generation(response)
    assert_silent(generation)
    assert '"status": 402' not in generation and '"status":402' not in generation


async def test_the_same_fault_again_is_counted_and_has_one_line_a_minute(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for passed_s in (15, 15, 61, 0):
        await two.edge.post(WHOLE)
        await two.later(passed_s)
    lines = [r.getMessage() for r in caplog.records if "its server answered" in r.getMessage()]
    assert [line.endswith("(2 more like it before)") for line in lines] == [False, True]
    assert two.edge.parts.observed.faults.counts == {("outside", "402"): 4}


@pytest.mark.parametrize("wanted", [WHOLE, body(model=FAR)], ids=["whole", "streamed"])
async def test_every_refusal_of_us_is_ours_to_answer_for(two: Two, wanted: dict[str, Any]) -> None:
    for status in OURS:
        two.server.scripts.append(fake.refusal(status, {"message": ACCOUNT}))
        response = await two.edge.post(wanted)
        assert (response.status, response.error_code) == (503, "provider_misconfigured"), status
        assert_silent(response.body.decode())
        await two.later()
    calls = (await two.edge.settled()).values()
    found = [[(a.outcome, a.status) for a in call.attempts] for call in calls]
    assert found == [[("misconfigured", status)] for status in OURS]
    assert not any(call.amount_nanousd for call in calls)


@pytest.mark.parametrize(
    "failure",
    [fake.refusal(500, {}), fake.refusal(503, {}), fake.Script([fake.Reset()])],
    ids=["broken", "full", "reset"],
)
async def test_the_only_server_outside_is_asked_once_more_in_a_moment(
    two: Two, failure: fake.Script
) -> None:
    """Once more, and not a third time: another call may."""
    two.server.behaviour = lambda _: fake.plain_document(["Here."], fake.usage_document(7, 1))
    two.server.scripts += [failure]
    response = await two.edge.post(WHOLE)
    assert response.status == 200, response.body
    (call,) = (await two.edge.settled()).values()
    assert [attempt.outcome for attempt in call.attempts][-1] == "answered"
    assert (len(call.attempts), len(two.server.requests)) == (2, 2)


async def test_sk_server_outside_that_says_when_it_has_room_is_not_asked_before(two: Two) -> None:
    full = fake.refusal(429, {}, (("retry-after", "30"),))
    two.server.scripts += [full]
    response = await two.edge.post(WHOLE)
    assert (response.status, response.error_code) == (503, "server_is_overloaded")
    assert len(two.server.requests) == 1


ABOUT_US: tuple[tuple[int, dict[str, Any]], ...] = (
    (400, {"message": ACCOUNT, "param": "model"}),
    (400, {"message": ACCOUNT, "code": "model_not_found"}),
    (400, {"message": ACCOUNT, "type": "authentication_error"}),
    (429, {"message": ACCOUNT, "code": "insufficient_quota"}),
)


async def test_words_about_us_are_ours_whatever_their_status(two: Two) -> None:
    for status, error in ABOUT_US:
        two.server.scripts.append(fake.refusal(status, error))
        response = await two.edge.post(WHOLE)
        assert (response.status, response.error_code) == (503, "provider_misconfigured"), error
        assert_silent(response.body.decode())
        await two.later()


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_words_about_the_call_reach_its_caller_without_the_key(two: Two, status: int) -> None:
    error = {"message": f"'top_p' is too hot for {KEY}.", "param": "top_p"}
    two.server.behaviour = lambda _: fake.refusal(status, error)
    response = await two.edge.post(WHOLE)
    assert (response.status, response.json["error"]["param"]) == (400, "top_p")
    assert response.json["error"]["message"] == "'top_p' is too hot for [key]."
    two.server.behaviour = lambda _: fake.refusal(status, b"<html>nginx</html>")
    response = await two.edge.post(WHOLE)
    assert response.status == 400
    assert response.json["error"]["message"] == (
        "The server of this model refused the request and did not say why."
    )
    calls = (await two.edge.settled()).values()
    assert {(a.outcome, a.status) for call in calls for a in call.attempts} == {
        ("rejected", status)
    }


async def test_server_that_is_busy_or_broken_is_told_with_its_words_too(two: Two) -> None:
    for status, outcome in ((429, "saturated"), (500, "cut")):
        two.server.behaviour = lambda _, s=status: fake.refusal(s, {"message": "hot"})  # type: ignore[misc]
        response = await two.edge.post(WHOLE)
        assert (response.status, response.error_code) == (503, "server_is_overloaded")
        attempts = (await two.explained(response))["attempts"]
        assert {(a["outcome"], a["status"]) for a in attempts} == {(outcome, status)}
        assert all("hot" in a["detail"] for a in attempts)


async def test_error_in_an_answer_of_status_200_is_a_refusal_too(two: Two) -> None:
    """Some servers find out behind the head of their answer."""
    error = {"error": {"message": ACCOUNT, "code": 402}}
    event = fake.stream(fake.plain_frame(""), fake.event(error))
    json_type = (("content-type", "application/json"),)
    document = fake.Script([fake.Send(json.dumps(error).encode())], 200, json_type)
    for script, wanted in ((event, body(model=FAR)), (event, WHOLE), (document, WHOLE)):
        two.server.scripts.append(script)
        response = await two.edge.post(wanted)
        assert (response.status, response.error_code) == (503, "provider_misconfigured")
        assert_silent(response.body.decode())
        await two.later()
    for call in (await two.edge.settled()).values():
        [attempt] = call.attempts
        assert (attempt.outcome, attempt.status) == ("misconfigured", 200)
        assert attempt.detail and "has run dry. Your key was [key]." in attempt.detail


async def test_next_candidate_takes_the_call(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with (
        fake.FakeUpstream(lambda _: FAULT) as server,
        edge(redis_server, redis, tmp_path, outer=server.address) as one,
    ):
        response = await one.post(body(stream=False, stream_options=None))
        assert (response.status, response.headers["x-sluice-pool"]) == (200, "tale-reserved")
        (call,) = (await one.settled()).values()
        assert [a.outcome for a in call.attempts] == ["misconfigured", "answered"]


async def test_pool_without_its_key_takes_no_call_and_says_why(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    why = f"the variable {VARIABLE}, which holds its key, is not set"
    pool = {"api_key_env": VARIABLE}
    async with (
        fake.FakeUpstream(lambda _: FAULT) as server,
        edge(redis_server, redis, tmp_path, outer=server.address, outer_pool=pool) as one,
    ):
        response = await one.post(body(stream=False, stream_options=None))
        assert response.headers["x-sluice-pool"] == "tale-reserved"
        (call,) = (await one.settled()).values()
        candidates = (await one.explained(call.rid)).candidates
        reasons = {each.pool: (each.eligible, each.reason) for each in candidates}
        assert reasons["outside"] == (False, f"not set up: {why}")
        assert not server.requests
        async with served(one.app) as url:
            assert await blocked_pools(url, "admin") == [f"pool outside takes no call: {why}"]
    assert f"pool outside takes no call: {why}" in caplog.text


async def test_model_whose_only_pool_has_no_key_is_a_503_of_ours(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    pool = {"model": FAR, "api_key_env": VARIABLE}
    async with edge(redis_server, redis, tmp_path, outer=GONE, outer_pool=pool) as one:
        response = await one.post(WHOLE)
        assert (response.status, response.error_code) == (503, "provider_misconfigured")
        assert VARIABLE not in response.body.decode()
