"""`/v1/audio/speech` through the whole journey, at servers outside that were built from OpenAI's
published document: sound passed on as it comes, characters charged once, and no clean end of sound
that was cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from openai import AsyncOpenAI
from redis.asyncio import Redis

from billing.money import nanousd
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, CHARACTER_PRICE, SPEAKER, Edge, Response, edge
from tests.redis_server import RedisServer

SPEECH = "/v1/audio/speech"
POOLS = ({"name": "speaks", "model": SPEAKER, "cost_usd_per_unit": "0.00001"},)
CHARACTER_NANOUSD = CHARACTER_PRICE // 10**6
TEXT = "H\u00e9llo there."
COST_NANOUSD = len(TEXT) * CHARACTER_NANOUSD
SOUND = [bytes([number]) * 5000 for number in range(4)]
MP3 = (("content-type", "audio/mpeg"),)


def sounds(*acts: fake.Act, headers: Any = MP3) -> Callable[[fake.Request], fake.Script]:
    return lambda _: fake.Script([*map(fake.Send, SOUND), *acts], headers=headers)


def wanted(**changes: Any) -> dict[str, Any]:
    return {"model": SPEAKER, "input": TEXT, "voice": "alloy"} | changes


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    async with fake.FakeUpstream(sounds()) as running:
        yield running


@pytest.fixture
async def one(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> AsyncIterator[Edge]:
    pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
    async with edge(redis_server, redis, tmp_path, outer_pools=pools) as running:
        yield running


async def test_sound_is_passed_on_and_costs_its_characters(
    one: Edge, server: fake.FakeUpstream
) -> None:
    options = {"speed": 1.5, "response_format": "wav", "instructions": "Softly."}
    response = await one.post(wanted(**options), path=SPEECH)
    assert (response.status, response.body) == (200, b"".join(SOUND))
    assert response.is_complete
    assert response.headers["content-type"] == "audio/wav"
    assert nanousd(response.headers["x-sluice-cost-usd"]) == COST_NANOUSD
    (request,) = server.requests
    assert request.path == SPEECH
    assert request.body == wanted(**options) | {"model": "their-tale"}
    (call,) = (await one.settled()).values()
    assert (call.usage.units, call.usage.unit) == (len(TEXT), "character")
    assert (call.amount_nanousd, call.status) == (COST_NANOUSD, "answered")
    (attempt,) = call.attempts
    assert (attempt.units, attempt.nanousd_per_unit) == (len(TEXT), 10_000)


async def test_the_first_sound_is_there_before_the_last(
    one: Edge, server: fake.FakeUpstream
) -> None:
    said = asyncio.Event()

    async def leave(response: Response) -> None:
        while not response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        said.set()
        await asyncio.sleep(0.05)

    server.behaviour = sounds(fake.Pause(30.0))
    response = await one.post(wanted(), path=SPEECH, leave=leave)
    assert said.is_set() and not response.is_complete
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, call.status) == (COST_NANOUSD, "cancelled")


async def test_a_retry_before_the_first_sound_costs_nothing_more(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.refusal(500, {"message": "down"}))
    response = await one.post(wanted(), path=SPEECH)
    assert response.body == b"".join(SOUND)
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, len(call.attempts)) == (COST_NANOUSD, 2)


async def test_sound_that_was_cut_has_no_clean_end(one: Edge, server: fake.FakeUpstream) -> None:
    server.behaviour = sounds(fake.Reset())
    response = await one.post(wanted(), path=SPEECH)
    assert response.status == 200
    assert b"".join(SOUND).startswith(response.body)
    assert not response.is_complete
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, call.status) == (COST_NANOUSD, "failed")


NO_SOUND: dict[str, fake.Script] = {
    "nothing": fake.Script([], headers=MP3),
    "JSON": fake.Script([fake.Send(b'{"a": 1}')], headers=(("content-type", "application/json"),)),
    "a page": fake.Script([fake.Send(b"<html>")], headers=(("content-type", "text/html"),)),
}


@pytest.mark.parametrize("script", NO_SOUND.values(), ids=NO_SOUND.keys())
async def test_a_server_that_answers_no_sound_costs_nobody_anything(
    one: Edge, server: fake.FakeUpstream, script: fake.Script
) -> None:
    server.behaviour = lambda _: script
    response = await one.post(wanted(), path=SPEECH)
    assert response.status in (502, 503)
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == 0


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no text": ({"input": ""}, "input"),
    "too long": ({"input": "a" * 4097}, "input"),
    "no voice": ({"voice": None}, "voice"),
    "a voice of nobody": ({"voice": {"name": "a"}}, "voice.name"),
    "too fast": ({"speed": 4.5}, "speed"),
    "another format": ({"response_format": "midi"}, "response_format"),
    "events": ({"stream_format": "sse"}, "stream_format"),
    "what nobody knows": ({"colour": "red"}, "colour"),
    "a model that writes": ({"model": "tale"}, "model"),
}


async def test_what_is_wrong_is_named_and_takes_nothing(one: Edge) -> None:
    for what, (changes, param) in WRONG.items():
        response = await one.post(wanted(**changes), path=SPEECH)
        assert (response.status, response.json["error"]["param"]) == (400, param), what
    assert not await one.money_keys()
    assert not await one.settled()


async def test_a_quote_has_the_characters(one: Edge) -> None:
    sent = json.dumps({"url": SPEECH, "body": wanted()}).encode()
    _, quoted = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert nanousd(quoted["models"][0]["max_usd"]) == COST_NANOUSD


async def test_an_operator_asks_whether_a_server_speaks(one: Edge) -> None:
    status, told = await ask(one.app, "POST", "/admin/v1/pools/speaks/check", b"", "admin")
    assert (status, told["outcome"]) == (200, "answered"), told


async def test_a_call_under_a_key_is_spoken_once(one: Edge, server: fake.FakeUpstream) -> None:
    key = {"idempotency-key": "a-speech"}
    first = await one.post(wanted(), path=SPEECH, headers=key)
    again = await one.post(wanted(), path=SPEECH, headers=key)
    assert again.body == first.body == b"".join(SOUND)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(server.requests) == 1
    await one.settled()


async def test_openais_client_has_a_text_spoken(one: Edge, tmp_path: Path) -> None:
    http = httpx.AsyncClient(transport=httpx.ASGITransport(one.app), base_url="http://sluice")
    url, file = "http://sluice/v1", tmp_path / "speech.mp3"
    async with AsyncOpenAI(api_key=API_KEY, base_url=url, http_client=http) as client:
        speech = client.audio.speech.with_streaming_response
        async with speech.create(model=SPEAKER, voice="alloy", input=TEXT) as answer:
            await answer.stream_to_file(file)
        assert file.read_bytes() == b"".join(SOUND)
    _, listed = await ask(one.app, "GET", "/v1/models", b"", API_KEY)
    assert {each["id"]: each["capabilities"]["speech"] for each in listed["data"]}[SPEAKER]
    await one.settled()
