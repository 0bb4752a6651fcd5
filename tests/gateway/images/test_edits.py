"""`/v1/images/edits` through the whole journey, at a server outside: the images that are sent are
held and charged as tokens, sent on from the disk with each attempt, and gone at every end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.images.edits import RULES
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import (
    API_KEY,
    IMAGE_PRICES,
    IMAGE_TOKENS,
    PAINTER,
    RETOUCHER,
    Edge,
    Response,
    edge,
)
from tests.gateway.images.pictures import MADE, USED, jpeg, makes, png, webp
from tests.gateway.images.test_generations import ROUNDED, held
from tests.gateway.uploads.forms import TYPE, form_body, mp3, sent_parts, wav
from tests.openai_api.valid import assert_valid
from tests.redis_server import RedisServer

EDITS = "/v1/images/edits"
POOLS = (
    {"name": "retouches", "model": RETOUCHER, "cost_usd_per_unit": "0.01"},
    {"name": "paints", "model": PAINTER},
)
SQUARE = IMAGE_PRICES["image/1024x1024"]
PROMPT = "in winter"
BOUND = len(PROMPT) + 8
"""Tokens of the prompt, in bytes."""
Files = list[tuple[str, str, bytes]]
ONE: Files = [("image", "fox.png", png())]
SEEN: dict[str, Any] = USED | {
    **{"input_tokens": 250, "total_tokens": 1306},
    "input_tokens_details": {"text_tokens": 4, "image_tokens": 246},
}


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    async with fake.FakeUpstream(makes(MADE, usage=SEEN)) as running:
        yield running


@pytest.fixture
async def one(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> AsyncIterator[Edge]:
    pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
    async with edge(redis_server, redis, tmp_path, outer_pools=pools) as running:
        yield running
        assert_nothing_left(running)


def assert_nothing_left(one: Edge) -> None:
    folder = one.parts.uploads._path
    links = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    assert not [each for each in targets if each.startswith(str(folder))] + os.listdir(folder)
    assert one.parts.uploads.bytes == 0


async def sends(
    one: Edge, files: Files = ONE, *texts: tuple[str, str], model: str = RETOUCHER, **options: Any
) -> Response:
    said = {"model": model, "prompt": PROMPT, "size": "1024x1024", "quality": "low"} | dict(texts)
    body = form_body([each for each in said.items() if each[1]], files)
    headers = {"content-type": TYPE} | options.pop("headers", {})
    return await one.post(body, path=EDITS, headers=headers, **options)


# --- what comes, and what it costs ---------------------------------------------------------------


async def test_images_go_on_from_the_disk_and_cost_what_the_server_says(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.behaviour = makes(MADE, MADE, usage=SEEN, quality="low", size="1024x1024")
    files = [
        ("image[]", "a.gif", png()),
        ("image[]", "b.png", jpeg()),
        ("image[]", "c", webp()),
        ("mask", "m", png()),
    ]
    response = await sends(one, files, ("n", "2"), ("input_fidelity", "high"), ("stream", "false"))
    assert response.status == 200, response.json
    assert_valid("ImagesResponse", response.json)
    assert_described(one.app, "POST", EDITS, 200, response.json)
    assert response.json["data"] == [MADE] * 2
    (request,) = server.requests
    assert request.path == EDITS
    assert sent_parts(request) == [
        *[("prompt", PROMPT), ("n", "2"), ("size", "1024x1024"), ("quality", "low")],
        *[("input_fidelity", "high"), ("model", "their-tale")],
        ("image[]", ("image-1.png", png())),
        ("image[]", ("image-2.jpg", jpeg())),
        ("image[]", ("image-3.webp", webp())),
        ("mask", ("mask.png", png())),
    ]
    (call,) = (await one.settled()).values()
    assert (call.usage.input, call.usage.image_input, call.usage.units) == (4, 246, 2)
    assert call.amount_nanousd == 4 * 10 + 246 * 20 + 2 * SQUARE
    assert held(one) == (BOUND + 4 * IMAGE_TOKENS) * 20 + 2 * SQUARE + ROUNDED
    details = {"text_tokens": 4, "image_tokens": 246}
    assert response.json["usage"]["input_tokens_details"] == details


SAYS: dict[str, tuple[dict[str, Any] | None, int]] = {
    "nothing": (None, (BOUND + IMAGE_TOKENS) * 10),
    "more than may be": (
        SEEN
        | {
            "input_tokens": 90_000,
            "input_tokens_details": {"text_tokens": 0, "image_tokens": 90_000},
        },
        (BOUND + IMAGE_TOKENS) * 20,
    ),
}


@pytest.mark.parametrize(("used", "amount"), SAYS.values(), ids=SAYS.keys())
async def test_nothing_is_charged_beyond_what_is_held(
    one: Edge, server: fake.FakeUpstream, used: dict[str, Any] | None, amount: int
) -> None:
    server.behaviour = makes(MADE, **({"usage": used} if used else {}))
    assert (await sends(one)).status == 200
    (request,) = server.requests
    assert sent_parts(request)[-1] == ("image", ("image-1.png", png()))
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == amount + SQUARE <= held(one)


async def test_a_retry_sends_the_images_again_and_costs_them_once(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.refusal(500, {"message": "down"}))
    files = [("image", "a", png(3)), ("image", "b", png(4))]
    assert (await sends(one, files)).status == 200
    sent = [
        [value[1] for name, value in sent_parts(each) if name == "image[]"]
        for each in server.requests
    ]
    assert sent == [[png(3), png(4)]] * 2
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, len(call.attempts)) == (4 * 10 + 246 * 20 + SQUARE, 2)


async def test_a_call_under_a_key_makes_its_images_once(
    one: Edge, server: fake.FakeUpstream
) -> None:
    key = {"idempotency-key": "a-fox"}
    first = await sends(one, headers=key)
    again = await sends(one, headers=key)
    assert (again.body, again.headers["idempotent-replayed"]) == (first.body, "true")
    changed = await sends(one, [("image", "fox.png", png(5))], headers=key)
    assert (changed.status, changed.error_code) == (422, "idempotency_key_reused")
    assert len(server.requests) == 1
    assert len(await one.settled()) == 1


async def test_a_caller_that_leaves_has_the_server_cancelled(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> None:
    server.behaviour = lambda _: fake.Script([fake.Stall()])
    pools = [{"base_url": f"{server.address}/v1"} | POOLS[0]]
    impatient = {"slow_reader_timeout_s": 1.0}
    async with edge(redis_server, redis, tmp_path, outer_pools=pools, gateway=impatient) as running:

        async def leave(_: Response) -> None:
            while not server.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert running.parts.uploads.bytes == len(png())

        await sends(running, leave=leave)
        await running.settled()
        await server.all_hung_up(within_s=30)
        assert_nothing_left(running)


async def test_whoever_names_no_model_gets_one_that_takes_images(
    one: Edge, server: fake.FakeUpstream
) -> None:
    assert (await sends(one, model="")).status == 200
    (call,) = (await one.settled()).values()
    assert call.model == RETOUCHER


# --- what is refused -----------------------------------------------------------------------------

IMAGE_MAX, MASK_MAX = RULES.files["image"].bytes_max, RULES.files["mask"].bytes_max
EMPTY_PNG = len(png())
BAD_FILES: dict[str, tuple[Files, str]] = {
    "no image": ([("mask", "m.png", png())], "image"),
    "empty": ([("image", "a.png", b"")], "image"),
    "cut off": ([("image", "a.png", png()[:-1])], "image"),
    "sound that is called .png": ([("image", "a.png", wav(1))], "image"),
    "an mp3 that is called .jpg": ([("image", "a.jpg", mp3(9))], "image"),
    "one byte more than 25 MB": (
        [("image", "a.png", png(comment=bytes(IMAGE_MAX - EMPTY_PNG + 1)))],
        "image",
    ),
    "a second one that is none": ([*ONE, ("image", "b.png", b"text")], "image[1]"),
    "a second one that is empty": ([("image[]", "a", png()), ("image[]", "b", b"")], "image[1]"),
    "a first one that is cut off": (
        [("image[]", "a", jpeg()[:-1]), ("image[]", "b", png())],
        "image[0]",
    ),
    "a third one that is too large": (
        [*ONE, *ONE, ("image", "c", png(comment=bytes(IMAGE_MAX)))],
        "image[2]",
    ),
    "seventeen": (ONE * 17, "image"),
    "a mask of another size": ([*ONE, ("mask", "m.png", png(5, 4))], "mask"),
    "a mask that is no PNG": ([*ONE, ("mask", "m.png", webp())], "mask"),
    "a mask that is too large": (
        [*ONE, ("mask", "m", png(comment=bytes(MASK_MAX - EMPTY_PNG + 1)))],
        "mask",
    ),
    "two masks": ([*ONE, ("mask", "m", png()), ("mask", "m", png())], "mask"),
}
BAD_WORDS: dict[str, tuple[list[tuple[str, str]], str]] = {
    "no prompt": ([("prompt", "")], "prompt"),
    "a stream": ([("stream", "true")], "stream"),
    "images on the way": ([("partial_images", "1")], "partial_images"),
    "too many": ([("n", "11")], "n"),
    "half an image": ([("n", "1.5")], "n"),
    "a word for a number": ([("n", "two")], "n"),
    "an unknown size": ([("size", "large")], "size"),
    "a size without a price": ([("size", "512x512")], "size"),
    "an unknown fidelity": ([("input_fidelity", "exact")], "input_fidelity"),
    "images by their URLs": ([("images", "https://images.example/1.png")], "images"),
    "a model that makes images of words alone": ([("model", PAINTER)], "image"),
    "a model that generates": ([("model", "tale")], "model"),
}


async def test_what_is_wrong_is_named_costs_nothing_and_leaves_nothing(
    one: Edge, server: fake.FakeUpstream
) -> None:
    wrong: dict[str, tuple[Files, list[tuple[str, str]], str]] = {
        **{what: (files, [], param) for what, (files, param) in BAD_FILES.items()},
        **{what: (ONE, texts, param) for what, (texts, param) in BAD_WORDS.items()},
    }
    for what, (files, texts, param) in wrong.items():
        response = await sends(one, files, *texts)
        assert (response.status, response.json["error"]["param"]) == (400, param), what
        assert_nothing_left(one)
    assert not await one.money_keys()
    assert not await one.settled()
    assert not server.requests


async def test_an_image_of_25_mb_is_taken_and_sent_on(one: Edge, server: fake.FakeUpstream) -> None:
    file = png(comment=bytes(IMAGE_MAX - EMPTY_PNG))
    assert len(file) == IMAGE_MAX
    assert (await sends(one, [("image", "a.png", file)])).status == 200
    (request,) = server.requests
    assert sent_parts(request)[-1] == ("image", ("image-1.png", file))
    await one.settled()


async def test_json_is_not_taken_here(one: Edge) -> None:
    response = await one.refused({"model": RETOUCHER}, path=EDITS)
    assert response.status == 415


async def test_what_a_server_refuses_is_the_callers_to_mend_and_free(
    one: Edge, server: fake.FakeUpstream
) -> None:
    error = {"message": "The mask has no alpha channel.", "param": "mask", "code": "invalid_image"}
    server.behaviour = lambda _: fake.refusal(400, error)
    response = await sends(one, [*ONE, ("mask", "m", png())])
    assert (response.status, response.json["error"]["param"]) == (400, "mask")
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == 0


async def test_models_say_who_edits_images(one: Edge) -> None:
    _, listed = await ask(one.app, "GET", "/v1/models", b"", API_KEY)
    models = {each["id"]: each for each in listed["data"]}
    assert models[RETOUCHER]["capabilities"]["image_edits"]
    assert "mask" in models[RETOUCHER]["supported_parameters"]
    assert models[PAINTER]["capabilities"]["images"]
    assert not models[PAINTER]["capabilities"]["image_edits"]
    assert "mask" not in models[PAINTER]["supported_parameters"]
