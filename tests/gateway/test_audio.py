"""`/v1/audio/transcriptions` and `/v1/audio/translations` through the whole journey, at servers
outside that were built from OpenAI's published document: one hold, seconds and tokens as reported,
the file sent again for each attempt, and nothing left of it at any end."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from openai import AsyncOpenAI, BadRequestError
from redis.asyncio import Redis

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.money import nanousd, usd
from billing.prices.book import PriceRate, PriceVersion, make_book
from billing.types import encode
from gateway.audio.transcription import BYTES_MAX
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.audio.containers import opus, webm
from tests.gateway.edge import (
    API_KEY,
    LISTENER,
    OUTER_PRICES,
    SCRIBE,
    SECOND_PRICE,
    Edge,
    Response,
    edge,
)
from tests.gateway.uploads.forms import TYPE, form_body, mp3, sent_parts, wav
from tests.redis_server import RedisServer

TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
POOLS = (
    {"name": "listens", "model": LISTENER, "cost_usd_per_unit": "0.00005"},
    {"name": "writes", "model": SCRIBE},
)
SECOND_NANOUSD = SECOND_PRICE // 10**6
TALK = wav(2.5)
JSON = (("content-type", "application/json"),)


def says(document: Any, **fields: Any) -> Callable[[fake.Request], fake.Script]:
    whole = document if isinstance(document, bytes) else json.dumps(document | fields).encode()
    return lambda _: fake.Script([fake.Send(whole)], headers=JSON)


def said(**fields: Any) -> Callable[[fake.Request], fake.Script]:
    return says({"text": "hello there"}, **fields)


def sent_files(request: fake.Request) -> dict[str, Any]:
    return dict(sent_parts(request))


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    async with fake.FakeUpstream(said()) as running:
        yield running


@pytest.fixture
async def one(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> AsyncIterator[Edge]:
    pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
    async with edge(redis_server, redis, tmp_path, outer_pools=pools) as running:
        yield running
        assert running.parts.uploads.bytes == 0
        assert not open_uploads(running)


def open_uploads(one: Edge) -> list[str]:
    folder = one.parts.uploads._path
    links = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [each for each in targets if each.startswith(str(folder))] + os.listdir(folder)


async def sends(
    one: Edge,
    file: bytes = TALK,
    *texts: tuple[str, str],
    model: str = LISTENER,
    name: str = "talk.wav",
    path: str = TRANSCRIPTIONS,
    **options: Any,
) -> Response:
    body = form_body([("model", model), *texts], [("file", name, file)])
    headers = {"content-type": TYPE} | options.pop("headers", {})
    return await one.post(body, path=path, headers=headers, **options)


# --- what comes, and what it costs ---------------------------------------------------------------

TEXT = "text/plain; charset=utf-8"
FORMATS: dict[str, tuple[Any, str]] = {
    "json": ({"text": "hello"}, "application/json"),
    "verbose_json": (
        {"text": "hello", "language": "en", "duration": 2.5, "segments": [{"id": 0}], "words": []},
        "application/json",
    ),
    "text": (b"hello\n", TEXT),
    "srt": (b"1\n00:00:00,000 --> 00:00:02,500\nhello\n", TEXT),
    "vtt": (
        "WEBVTT\n\n00:00.000 --> 00:02.500\nh\u00e9llo\n".encode(),
        TEXT,
    ),
}


@pytest.mark.parametrize(
    ("name", "path"), [*((name, TRANSCRIPTIONS) for name in FORMATS), ("json", TRANSLATIONS)]
)
async def test_an_answer_of_any_format_costs_the_seconds_of_the_file(
    one: Edge, server: fake.FakeUpstream, name: str, path: str
) -> None:
    document, content_type = FORMATS[name]
    server.behaviour = says(document)
    response = await sends(one, TALK, ("response_format", name), ("prompt", "a talk"), path=path)
    assert (response.status, response.headers["content-type"]) == (200, content_type)
    if isinstance(document, bytes):
        assert response.body == document
    else:
        cost = response.headers["x-sluice-cost-usd"]
        usage = {"type": "duration", "seconds": 3, "cost": cost}
        assert response.json == document | {"usage": usage}
    (request,) = server.requests
    assert request.path == path
    assert sent_files(request) == {
        "model": "their-tale",
        "prompt": "a talk",
        "response_format": name,
        "file": ("audio.wav", TALK),
    }
    (call,) = (await one.settled()).values()
    assert (call.usage.units, call.usage.unit, call.usage.total) == (3, "second", 0)
    assert call.amount_nanousd == 3 * SECOND_NANOUSD
    (attempt,) = call.attempts
    assert (attempt.units, attempt.nanousd_per_unit) == (3, 50_000)


DURATIONS: dict[str, tuple[bytes, dict[str, Any], int]] = {
    "what the server says": (TALK, {"type": "duration", "seconds": 2}, 2),
    "rounded up": (TALK, {"type": "duration", "seconds": 1.2}, 2),
    "a WAV is no longer than it is": (TALK, {"type": "duration", "seconds": 70}, 3),
    "an mp3 may be longer than it says": (mp3(400), {"type": "duration", "seconds": 70}, 70),
    "but no longer than it can be": (mp3(400), {"type": "duration", "seconds": 7000}, 167),
    "a WebM that nobody says more of": (webm(9.5, 0, 9), {}, 10),
    "a head that was written before the end": (wav(10, says=0), {}, 10),
}


@pytest.mark.parametrize(("file", "usage", "seconds"), DURATIONS.values(), ids=DURATIONS.keys())
async def test_seconds_are_charged_as_reported_up_to_what_is_held(
    one: Edge, server: fake.FakeUpstream, file: bytes, usage: dict[str, Any], seconds: int
) -> None:
    server.behaviour = said(**({"usage": usage} if usage else {}))
    response = await sends(one, file)
    assert response.json["usage"]["seconds"] == seconds
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == seconds * SECOND_NANOUSD


@pytest.mark.parametrize(
    ("length", "seconds"),
    [
        ({"seconds": 2.5}, 3),
        ({"bytes": 7_501}, 11),
        ({"seconds": 2.5, "bytes": 7_500}, 10),
        ({"seconds": 12, "bytes": 7_500}, 12),
    ],
)
@pytest.mark.parametrize("path", [TRANSCRIPTIONS, TRANSLATIONS])
async def test_a_quote_takes_the_length_of_the_file(
    one: Edge, path: str, length: dict[str, Any], seconds: int
) -> None:
    quoted = await quotes(one, path, model=LISTENER, prompt="a talk", **length)
    assert quoted["models"][0]["max_usd"] == usd(seconds * SECOND_NANOUSD)
    assert quoted["candidates"][0]["pool"] == "listens"


async def test_no_file_of_a_quoted_length_costs_more_than_its_quote(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.behaviour = said(usage={"type": "duration", "seconds": 10**6})
    for model in (LISTENER, SCRIBE):
        await sends(one, TALK, model=model)
    charged = {call.model: call.amount_nanousd for call in (await one.settled()).values()}
    for model in (LISTENER, SCRIBE):
        quoted = await quotes(one, TRANSCRIPTIONS, model=model, seconds=2.5)
        most = quoted["models"][0]["max_usd"]
        assert nanousd(most) >= charged[model] > 0
        assert model != LISTENER or most == usd(charged[model])


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({}, "seconds"),
        ({"seconds": -1}, "seconds"),
        ({"seconds": 10**9}, "seconds"),
        ({"seconds": "3"}, "seconds"),
        ({"bytes": 0}, "bytes"),
        ({"bytes": BYTES_MAX + 1}, "bytes"),
        ({"seconds": 3, "file": "talk.wav"}, "file"),
        ({"seconds": 3, "temperature": 9}, "temperature"),
        ({"seconds": 3, "model": None}, "model"),
    ],
)
async def test_a_quote_names_what_is_wrong(one: Edge, wrong: dict[str, Any], param: str) -> None:
    sent = json.dumps({"url": TRANSCRIPTIONS, "body": {"model": LISTENER} | wrong}).encode()
    status, answer = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert (status, answer["error"]["param"]) == (400, param)


async def quotes(one: Edge, path: str, **body: Any) -> Any:
    sent = json.dumps({"url": path, "body": body}).encode()
    status, quoted = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert status == 200, quoted
    assert_described(one.app, "POST", "/v1/quote", status, quoted)
    return quoted


async def test_a_model_that_is_sold_by_tokens_is_charged_for_those_of_its_server(
    one: Edge, server: fake.FakeUpstream
) -> None:
    tokens = {"input_tokens": 40, "output_tokens": 7, "total_tokens": 47}
    details = {"text_tokens": 10, "audio_tokens": 30}
    server.behaviour = said(usage=tokens | {"type": "tokens", "input_token_details": details})
    response = await sends(one, model=SCRIBE)
    shape = response.json["usage"]
    assert {name: shape[name] for name in tokens} == tokens
    assert (shape["type"], shape["input_token_details"]) == ("tokens", details)
    (call,) = (await one.settled()).values()
    assert (call.usage.input, call.usage.audio_input, call.usage.output) == (10, 30, 7)
    assert call.amount_nanousd == 10 * 10 + 30 * 30 + 7 * 20


async def test_tokens_that_nobody_says_are_those_of_the_length(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.behaviour = said()
    await sends(one, model=SCRIBE)
    (call,) = (await one.settled()).values()
    assert (call.usage.input, call.usage.output) == (150, 2)


NONSENSE: dict[str, Any] = {
    "no text": {"answer": 42},
    "no JSON": b"hello",
    "seconds below zero": {"text": "a", "usage": {"type": "duration", "seconds": -1}},
    "endless seconds": b'{"text": "a", "usage": {"type": "duration", "seconds": 1e300}}',
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
async def test_a_server_that_answers_nonsense_costs_nobody_anything(
    one: Edge, server: fake.FakeUpstream, nonsense: Any
) -> None:
    server.behaviour = says(nonsense)
    assert (await sends(one)).status in (502, 503)
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, call.usage.units) == (0, 0)


async def test_a_limit_of_tokens_does_not_bind_a_model_that_is_sold_by_seconds(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> None:
    pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
    limits = {"tokens_per_minute": 1000}
    async with edge(redis_server, redis, tmp_path, outer_pools=pools, limits=limits) as bound:
        assert (await sends(bound, mp3(400))).status == 200
        refused = await sends(bound, mp3(400), model=SCRIBE)
        assert refused.error_code == "request_too_large_for_limit"
        await bound.settled()


async def test_a_retry_sends_the_whole_file_again_and_costs_its_seconds_once(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.refusal(500, {"message": "down"}))
    response = await sends(one)
    assert response.status == 200
    assert [sent_files(each)["file"][1] for each in server.requests] == [TALK, TALK]
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, len(call.attempts)) == (3 * SECOND_NANOUSD, 2)


async def test_what_a_server_refuses_is_the_callers_to_mend_and_free(
    one: Edge, server: fake.FakeUpstream
) -> None:
    error = {"message": "Audio too short.", "param": "file", "code": "audio_too_short"}
    server.behaviour = lambda _: fake.refusal(400, error)
    response = await sends(one)
    assert (response.status, response.json["error"]["param"]) == (400, "file")
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == 0


# --- what is refused -----------------------------------------------------------------------------

BAD: dict[str, tuple[bytes, list[tuple[str, str]], str]] = {
    "a PNG called .wav": (b"\x89PNG\r\n\x1a\n" + bytes(500), [], "file"),
    "empty": (b"", [], "file"),
    "cut off": (TALK[:5000], [], "file"),
    "a head that says less": (wav(10, says=1), [], "file"),
    "an Ogg that says less": (opus(10, says=[1]), [], "file"),
    "an Ogg without its end": (opus(10, end=False), [], "file"),
    "a WebM that says less": (webm(1, 0, 9), [], "file"),
    "a WebM that is no number long": (webm(math.nan, 0), [], "file"),
    "one byte more than 25 MB": (wav(1) + bytes(BYTES_MAX - 16_043), [], "file"),
    "far more than 25 MB": (bytes(BYTES_MAX + (1 << 20)), [], "file"),
    "a stream": (TALK, [("stream", "true")], "stream"),
    "speakers": (TALK, [("response_format", "diarized_json")], "response_format"),
    "a hot one": (TALK, [("temperature", "1.5")], "temperature"),
    "a word for a number": (TALK, [("temperature", "nan")], "temperature"),
    "no such grain": (
        TALK,
        [("timestamp_granularities[]", "letter")],
        "timestamp_granularities[0]",
    ),
    "twice": (TALK, [("language", "en"), ("language", "de")], "language"),
    "what nobody knows": (TALK, [("colour", "red")], "colour"),
    "what is not offered": (TALK, [("include[]", "logprobs")], "include"),
}


async def test_what_is_wrong_is_named_costs_nothing_and_leaves_nothing(
    one: Edge, server: fake.FakeUpstream
) -> None:
    for what, (file, texts, param) in BAD.items():
        response = await sends(one, file, *texts)
        assert (response.status, response.json["error"]["param"]) == (400, param), what
        assert not open_uploads(one), what
    assert not await one.money_keys()
    assert not await one.settled()
    assert not server.requests


async def test_25_mb_are_taken_and_sent_on(one: Edge, server: fake.FakeUpstream) -> None:
    file = wav((BYTES_MAX - 44) / 16_000)
    assert len(file) == BYTES_MAX
    response = await sends(one, file)
    assert response.status == 200
    (request,) = server.requests
    assert sent_files(request)["file"][1] == file
    await one.settled()


@pytest.mark.parametrize("model", ["tale", "nobody"])
async def test_a_model_that_does_not_listen_is_refused(one: Edge, model: str) -> None:
    response = await sends(one, model=model)
    assert response.json["error"]["param"] == "model"
    assert not await one.settled()


async def test_json_is_not_taken_here(one: Edge) -> None:
    response = await one.refused({"model": LISTENER}, path=TRANSCRIPTIONS)
    assert response.status == 415
    assert "multipart/form-data" in response.json["error"]["message"]


async def test_a_model_that_an_adapter_reaches_takes_no_files(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> None:
    pool = POOLS[0] | {"base_url": server.address, "adapter": "triton"}
    async with edge(redis_server, redis, tmp_path, outer_pools=[pool]) as running:
        response = await sends(running)
        assert (response.status, response.json["error"]["param"]) == (400, "model")
        assert "triton" in response.json["error"]["message"]
        assert not server.requests
        (call,) = (await running.settled()).values()
        assert call.amount_nanousd == 0


# --- every other end -----------------------------------------------------------------------------


async def test_a_caller_that_leaves_takes_its_file_along(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.behaviour = lambda _: fake.Script([fake.Pause(0.2), *said()(_).acts], headers=JSON)

    async def leave(_: Response) -> None:
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert one.parts.uploads.bytes == len(TALK)

    await sends(one, leave=leave)
    await one.settled()
    assert not open_uploads(one)


async def test_a_call_under_a_key_runs_once_whatever_the_boundary_is(
    one: Edge, server: fake.FakeUpstream
) -> None:
    key = {"idempotency-key": "a-talk"}
    first = await sends(one, headers=key)
    body = form_body([("model", LISTENER)], [("file", "x", TALK)]).replace(b"a-boundary", b"other")
    other = {"content-type": TYPE.replace("a-boundary", "other")}
    again = await one.post(body, path=TRANSCRIPTIONS, headers=key | other)
    assert (again.body, again.headers["idempotent-replayed"]) == (first.body, "true")
    changed = await sends(one, wav(1), headers=key)
    assert (changed.status, changed.error_code) == (422, "idempotency_key_reused")
    assert len(server.requests) == 1
    await one.settled()


# --- others --------------------------------------------------------------------------------------


async def test_an_operator_asks_whether_a_server_listens(
    one: Edge, server: fake.FakeUpstream
) -> None:
    status, told = await ask(one.app, "POST", "/admin/v1/pools/listens/check", b"", "admin")
    assert (status, told["outcome"]) == (200, "answered"), told
    name, content = sent_files(server.requests[0])["file"]
    assert (name, content) == ("audio.wav", wav(1, 16_000))


async def test_what_was_heard_is_booked_and_listed_by_seconds(one: Edge) -> None:
    await sends(one)
    (call,) = (await one.settled()).values()
    rates = [PriceRate(LISTENER, "default", *each) for each in OUTER_PRICES[LISTENER].items()]
    book = make_book([PriceVersion("pv_1", 0, None, tuple(rates))])
    with one.parts.ledger.write() as conn:
        record = Record(0, "0-0", "settled", call.rid, encode(call))
        booking.book(conn, booking.read([record], book, call.ended_us))
    since = f"start_time={call.ended_us // 10**6 - 3600}"
    path = f"/v1/organization/usage/audio_transcriptions?{since}&group_by=model"
    _, page = await ask(one.app, "GET", path, b"", API_KEY)
    (used,) = [each for bucket in page["data"] for each in bucket["results"]]
    assert used["object"] == "organization.usage.audio_transcriptions.result"
    assert (used["model"], used["num_model_requests"], used["seconds"]) == (LISTENER, 1, 3)


async def test_models_say_who_listens(one: Edge) -> None:
    _, listed = await ask(one.app, "GET", "/v1/models", b"", API_KEY)
    can = {each["id"]: each["capabilities"] for each in listed["data"]}
    assert can[LISTENER]["transcriptions"] and can[LISTENER]["translations"]
    assert not can[LISTENER]["chat"] and not can["tale"]["transcriptions"]


async def test_openais_client_transcribes_and_translates(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.behaviour = said(usage={"type": "duration", "seconds": 3})
    http = httpx.AsyncClient(transport=httpx.ASGITransport(one.app), base_url="http://sluice")
    async with AsyncOpenAI(
        api_key=API_KEY, base_url="http://sluice/v1", http_client=http
    ) as client:
        transcript = await client.audio.transcriptions.create(
            model=LISTENER, file=("talk.wav", TALK), timestamp_granularities=["word"], language="en"
        )
        assert transcript.text == "hello there"
        assert transcript.usage is not None and transcript.usage.type == "duration"
        assert sent_files(server.requests[0])["timestamp_granularities[]"] == "word"
        translation = await client.audio.translations.create(
            model=LISTENER, file=("talk.wav", TALK), temperature=0.5
        )
        assert translation.text == "hello there"
        server.behaviour = says(b"hello\n")
        text = await client.audio.transcriptions.create(
            model=LISTENER, file=("talk.wav", TALK), response_format="text"
        )
        assert text == "hello\n"
        with pytest.raises(BadRequestError) as refused:
            await client.audio.transcriptions.create(model=LISTENER, file=("a.wav", b"no sound"))
        assert refused.value.param == "file"
    await one.settled()
