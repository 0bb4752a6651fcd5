"""A pool without traffic has no replica; whoever calls next waits for one, and nobody is lost."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import httpx2 as httpx
import openai
import psutil
import pytest

from tests.journeys.calls import CHAT, NAP, body, chunks_of, events, opened, rid_of, said
from tests.plain_http import NOBODY
from tests.stack import Stack, Tenant
from tests.workers.ray.test_template import title_of
from workers.ray.file import read_ray_file
from workers.ray.session import members
from workers.ray.template import SPARE_TITLE

POOL = "nap"
LOOK_EVERY_S = 0.01


@pytest.fixture
def cold(stack: Stack) -> None:
    """The pool has gone to zero by itself."""
    stack.wait_until(lambda: not stack.replicas(POOL), 60, "the pool to go to zero")


def published(stack: Stack) -> list[dict[str, Any]]:
    """The pool's replicas as the controller publishes them."""
    with stack.redis() as client:
        fleet = json.loads(client.get("sluice:fleet") or b'{"pools": []}')
    return next((p["replicas"] for p in fleet["pools"] if p["name"] == POOL), [])


@contextmanager
def sightings(stack: Stack) -> Iterator[set[str]]:
    """Every replica of the pool that exists at some time while the block runs."""
    seen: set[str] = set()
    end = threading.Event()

    def look() -> None:
        while not end.wait(LOOK_EVERY_S):
            seen.update(replica["id"] for replica in published(stack))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        end.set()
        watcher.join()


@pytest.mark.usefixtures("cold")
def test_g42_call_for_a_cold_pool_is_held_and_answered(stack: Stack, tenant: Tenant) -> None:
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body(NAP, max_tokens=8))
    assert response.status_code == 200
    assert response.headers["x-sluice-pool"] == POOL
    explained = stack.generation(response.headers["x-request-id"])
    assert explained["status"] == "answered"
    [candidate] = explained["candidates"]
    assert "ready in about" in candidate["reason"]
    assert stack.replicas(POOL, "WARM")


def of_ray(stack: Stack, title: str) -> list[psutil.Process]:
    """The processes of the cluster whose title begins so."""
    ray = read_ray_file(stack.data / "ray.json")
    assert ray is not None
    return [each for each in members(ray.session) if title_of(each).startswith(title)]


@pytest.mark.usefixtures("cold")
def test_cold_pool_takes_over_a_spare_and_another_is_made_behind_it(
    stack: Stack, tenant: Tenant
) -> None:
    stack.wait_until(lambda: of_ray(stack, SPARE_TITLE), 60, "a spare")
    stack.call("POST", CHAT, secret=tenant.secret, json=body(NAP, max_tokens=8))
    replicas = partial(of_ray, stack, f"ray::ServeReplica:pool-{POOL}.")
    stack.wait_until(lambda: len(replicas()) == 1, 60, "the end of what served before")
    [replica] = replicas()
    template = replica.parent()
    assert template is not None and "workers.ray.template" in template.cmdline()
    stack.wait_until(lambda: of_ray(stack, SPARE_TITLE), 60, "another spare")


@pytest.mark.usefixtures("cold")
def test_operator_wakes_a_pool_and_puts_it_to_sleep(stack: Stack, tenant: Tenant) -> None:
    assert stack.admin("POST", f"/pools/{POOL}/wake", {"replicas": 1})["replicas"] == 1
    stack.wait_until(lambda: stack.replicas(POOL), 60, "a replica that starts")
    stages = {"node", "spare", "load", "warm-up", None}
    assert {replica["stage"] for replica in stack.replicas(POOL)} <= stages
    stack.wait_until(lambda: stack.replicas(POOL, "WARM"), 60, "the replica to be warm")
    [replica] = stack.replicas(POOL)
    assert psutil.Process(replica["pid"]).cmdline()[0].startswith("ray::"), "then of what it does"
    assert (replica["stage"], replica["eta_s"]) == (None, None)
    stack.admin("POST", f"/pools/{POOL}/sleep")
    stack.wait_until(lambda: stack.replicas(POOL, "SLEEPING"), 60, "the replica to sleep")
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body(NAP, max_tokens=8))
    assert response.status_code == 200
    [woken] = stack.replicas(POOL)
    assert (woken["id"], woken["pid"]) == (replica["id"], replica["pid"])
    stack.admin("POST", f"/pools/{POOL}/sleep", {"to": "cold"})
    stack.wait_until(lambda: not stack.replicas(POOL), 60, "the pool to sleep")


@pytest.mark.usefixtures("cold")
def test_ten_callers_cause_one_start_and_none_is_lost(stack: Stack, tenant: Tenant) -> None:
    async def ask_all() -> list[Any]:
        async with stack.async_openai(tenant.secret) as client:
            asked = [
                client.chat.completions.create(model=NAP, messages=said(), max_tokens=8)
                for _ in range(10)
            ]
            return await asyncio.gather(*asked)

    with sightings(stack) as seen:
        answers = asyncio.run(ask_all())
    assert len({answer.id for answer in answers}) == 10
    assert len(seen) == 1, seen
    booked = stack.wait_until(
        lambda: (found := stack.requests_of(tenant)) and len(found) == 10 and found, 60, "ten calls"
    )
    assert {call["status"] for call in booked} == {"answered"}


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "after_s", [pytest.param(0.0, marks=LONG), 0.5, pytest.param(1.0, marks=LONG)]
)
def test_sd_call_on_the_way_down_is_not_lost(stack: Stack, tenant: Tenant, after_s: float) -> None:
    """A lone call meets the replica as it leaves, refuses, is proven idle, is gone: answered.
    `tests/workers/ray/test_cluster.py` always looks at all of these, without a gateway."""
    stack.call("POST", CHAT, secret=tenant.secret, json=body(NAP, max_tokens=1))
    stack.wait_until(
        lambda: any(replica["state"] == "DRAINING" for replica in published(stack)),
        30,
        "the replica to leave",
    )
    time.sleep(after_s)
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body(NAP, max_tokens=2))
    assert response.status_code == 200, response.text
    assert stack.generation(response.headers["x-request-id"])["status"] == "answered"


@pytest.mark.usefixtures("cold")
def test_sb_deadline_shorter_than_the_start_is_refused_at_once(
    stack: Stack, tenant: Tenant
) -> None:
    """Decided before anything is taken: no record and no charge. The pool is started all the same,
    so that `retry-after` is true."""
    for stream in (False, True):
        with (
            stack.openai(tenant.secret) as client,
            pytest.raises(openai.InternalServerError) as raised,
        ):
            client.chat.completions.create(
                model=NAP,
                messages=said(),
                stream=stream,
                extra_headers={"x-sluice-deadline-ms": "300"},
            )
        response = raised.value.response
        assert response.status_code == 503
        assert raised.value.code == "server_is_overloaded"
        assert int(response.headers["retry-after"]) >= 1
    assert stack.requests_of(tenant) == []
    stack.wait_until(lambda: stack.replicas(POOL), 60, "the pool to be started for a retry")


@pytest.mark.usefixtures("cold")
def test_stream_that_waits_is_kept_alive_and_then_answered(stack: Stack, tenant: Tenant) -> None:
    wanted = body(NAP, max_tokens=8, stream_options={"include_usage": True})
    with ExitStack() as reading:
        with stack.paused("controller"):  # no replica comes before the stream has begun
            response = reading.enter_context(opened(stack, tenant, wanted))
        assert response.status_code == 200
        assert "x-sluice-pool" not in response.headers, "nobody knew yet who would answer"
        found = list(events(response.iter_lines()))
    comments = [event for event in found if event.startswith(":")]
    assert comments and found[: len(comments)] == comments
    assert all("waiting for" in comment for comment in comments)
    assert any("position 0" in comment for comment in comments)
    *chunks, last = chunks_of(found)
    assert found[-1] == "[DONE]"
    assert last["sluice"] == {"pool": POOL, "tier": "default"}
    assert stack.generation(rid_of(chunks[0]["id"]))["cost_usd"] == last["usage"]["cost"]


@pytest.mark.usefixtures("cold")
def test_client_understands_a_stream_that_began_with_waiting(
    stack: Stack, client: openai.OpenAI
) -> None:
    with stack.paused("controller"):  # no replica comes before the stream has begun
        stream = client.chat.completions.create(
            model=NAP, messages=said(), max_tokens=8, stream=True
        )
    with stream:
        reasons = [choice.finish_reason for chunk in stream for choice in chunk.choices]
    assert reasons[-1] in ("stop", "length")


@pytest.mark.usefixtures("cold")
def test_deadline_that_passes_while_waiting_ends_the_wait(stack: Stack, tenant: Tenant) -> None:
    """The controller stands still, so no replica comes: 504 for a whole answer, an error event
    for a stream that has its 200 already, and everything taken is given back."""
    expected_s = stack.fleet()[POOL].get("cold_start_s") or 8.0
    headers = {"x-sluice-deadline-ms": str(round(expected_s * 1000) + 2000)}

    async def ask_both() -> tuple[httpx.Response, httpx.Response]:
        headers["authorization"] = f"Bearer {tenant.secret}"
        async with httpx.AsyncClient(verify=NOBODY, timeout=60, headers=headers) as client:
            url = stack.base_url + CHAT
            whole = client.post(url, json=body(NAP))
            stream = client.post(url, json=body(NAP, stream=True))
            return await asyncio.gather(whole, stream)

    with stack.paused("controller"):
        whole, stream = asyncio.run(ask_both())
    assert whole.status_code == 504
    assert whole.json()["error"]["code"] == "deadline_exceeded"
    assert stream.status_code == 200
    *comments, last = list(events(iter(stream.text.splitlines())))
    assert comments and all(comment.startswith(":") for comment in comments)
    assert json.loads(last)["error"]["code"] == "deadline_exceeded"
    booked = stack.generation(whole.headers["x-request-id"])
    assert (booked["status"], booked["cost_usd"]) == ("refused", "0.00")
