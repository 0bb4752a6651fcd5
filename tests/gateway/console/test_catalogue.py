"""The catalogue as a page: figures with their sources, qualities with how they were measured."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from time import time
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.db.engine import open_store
from gateway.console.pages.catalogue.calibrations import calibration_views
from gateway.console.pages.catalogue.hardware import SourcedText, hardware_list
from gateway.console.pages.catalogue.models import model_views
from gateway.console.pages.catalogue.variants import variant_views
from gateway.speeds.pool_speeds import Basis, PoolSpeeds
from routing.economics.calibration import Calibration
from routing.economics.predictor import FIRST_GUESS
from routing.economics.shape import ModelShape
from routing.hardware.catalogue import Figure, Hardware, HardwareKind, Precision, shipped
from routing.types import Model, Task
from routing.variants import Validation, Variant
from tests.gateway.admin.test_pools import send
from tests.gateway.admin.test_variants import MEASURED, POOL, VARIANT
from tests.gateway.console.test_pages import HOSTILE, browser, sign_in
from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer
from tests.routing.fleets import pool

SHAPE = ModelShape(70e9, 70e9, 80, 64, 8, 128, context_tokens=8192)


@pytest.fixture
async def running(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as opened:
        yield opened


async def look(running: Edge) -> str:
    async with browser(running) as client:
        await sign_in(client)
        answer = await client.get("/console/catalogue")
        assert answer.status_code == 200
        text: str = answer.text
        return text


def test_every_figure_of_every_part_leads_to_its_source() -> None:
    view = hardware_list(list(shipped().values()), {})
    assert {row.name for row in view.rows} == set(shipped())
    for row in view.rows:
        part = shipped()[row.name]
        assert (row.memory is None) == (part.memory_gb is None)
        if row.memory and part.memory_gb:
            assert view.sources[row.memory.source - 1] == part.memory_gb.source
        for shown, offer in zip(row.prices, view.offers, strict=True):
            price = next((p for p in part.prices if p.offer.replace("_", " ") == offer), None)
            assert (shown is None) == (price is None)
            if shown and price:
                assert view.sources[shown.source - 1] == price.source
    assert len(set(view.sources)) == len(view.sources)


def test_parts_that_serve_come_first_and_name_their_pools() -> None:
    view = hardware_list(list(shipped().values()), {"l4": ["b", "a"]})
    assert (view.rows[0].name, view.rows[0].pools) == ("l4", ("a", "b"))
    assert not any(row.pools for row in view.rows[1:])


def test_precisions_of_one_speed_stand_together() -> None:
    fast, slow = Figure(1978.9, "a datasheet"), Figure(989.4, "a datasheet")
    tflops = {Precision.BF16: slow, Precision.FP16: slow, Precision.FP8: fast}
    part = Hardware("x", "X", HardwareKind.GPU, "tests", tflops=tflops)
    [row] = hardware_list([part], {}).rows
    assert row.compute == (SourcedText("989.4 bf16, fp16", 1), SourcedText("1,978.9 fp8", 1))


def test_models_for_one_task_stand_together_with_what_they_can_do() -> None:
    def made(name: str, task: Task) -> Model:
        return Model(name, None, 8192, 1, 1, 0.5, task)

    models = [
        *(made("listens", Task.TRANSCRIBE), made("z", Task.RERANK)),
        *(made("talks", Task.GENERATE), made("a", Task.RERANK)),
    ]
    rows = model_views(models, {}, {"a": ["y", "x"]})
    assert [(row.name, row.made_for) for row in rows] == [
        *(("talks", "answers"), ("a", "rankings"), ("z", "rankings")),
        ("listens", "transcriptions"),
    ]
    assert (rows[1].abilities, rows[1].pools) == ("rerank", ("x", "y"))
    assert rows[3].abilities == "transcriptions, translations"
    assert "chat" in rows[0].abilities and rows[0].context == "8,192"


def test_variant_says_its_size_and_how_good_it_was_measured_to_be() -> None:
    measured = Validation("support", 0.91, "judged by two", "2026-11-02T00:00:00+00:00", 1200)
    known = Variant("llama", "int8", Precision.INT8, 2, 8192, SHAPE, {"support": measured})
    blank = Variant("llama", "aa", Precision.FP16, context_tokens=100)
    first, second = variant_views([known, blank], {("llama", "int8"): ["b", "a"]})
    assert (first.name, first.params, first.quality, first.pools) == ("aa", "", (), ())
    assert (second.params, second.weights, second.kv) == ("70.0 B", "70.0 GB", "327.7 kB")
    assert second.pools == ("a", "b")
    [shown] = second.quality
    assert (shown.score, shown.width, shown.samples) == ("0.91", 91.0, "1,200")
    assert (shown.method, shown.date) == ("judged by two", "02 Nov 2026")


async def test_page_has_pools_variants_and_hardware(running: Edge) -> None:
    await send(running, "PUT", "/variants/tale/int8", VARIANT | {"quality": [MEASURED]})
    coming = {"from": "2120-01-01", "cost_usd_per_s": "0.5"}
    priced: dict[str, Any] = {"cost_usd_per_s": "0.001", "prices": [coming], "region": "eu-1"}
    status, _ = await send(running, "PUT", "/pools/small", POOL | {"gpus_per_replica": 2, **priced})
    assert status == 200
    page = await look(running)
    assert 'id="model-tale"' in page and "by what they can do" in page
    of_pool = ("2 \N{MULTIPLICATION SIGN} l40s", "eu-1", "3.60", "01 Jan 2120")
    for words in (*of_pool, "support", "0.90", "400 samples"):
        assert words in page, words
    assert page.index('id="hardware-l40s"') < page.index('id="hardware-h100"')
    assert "a label: no such variant is declared" in page, "of the pools that the test began with"


async def test_simulated_pool_is_named_as_such_and_no_other_is(running: Edge) -> None:
    await send(running, "PUT", "/variants/tale/int8", VARIANT)
    _, pools = await send(running, "GET", "/pools", {})
    for name in [row["name"] for row in pools["data"] if row["model"] == "tale"]:
        await send(running, "DELETE", f"/pools/{name}", {})
    two = POOL | {"gpus_per_replica": 2}
    assert (await send(running, "PUT", "/pools/played", two))[0] == 200
    assert "spot, simulated" not in await look(running)
    played = two | {"engine": "simulated"}
    assert (await send(running, "PUT", "/pools/played", played))[0] == 200
    assert "spot, simulated" in await look(running)


async def test_pool_that_was_disabled_is_not_shown(running: Edge) -> None:
    assert 'id="pool-tale-spot"' in await look(running)
    await send(running, "DELETE", "/pools/tale-spot", {})
    assert 'id="pool-tale-spot"' not in await look(running)


async def test_price_is_the_one_that_holds_now(running: Edge) -> None:
    begun = {"from": int(time()) - 3600, "cost_usd_per_s": "0.002"}
    body = POOL | {"gpus_per_replica": 2, "cost_usd_per_s": "0.001", "prices": [begun]}
    await send(running, "PUT", "/pools/small", body)
    assert "7.20" in await look(running)


async def test_what_was_learned_of_a_pool_is_shown_with_its_error(running: Edge) -> None:
    assert "Nothing was learned yet" in await look(running)
    for tokens in range(40, 46):
        assert (await running.post(body(max_tokens=tokens))).status == 200
    await running.settled()
    page = await look(running)
    assert "pool tale-reserved" in page and "First token" in page
    assert "as observed" in page and "by guessed speeds" in page


def test_error_is_a_share_and_a_ceiling_that_is_a_guess_may_be_passed() -> None:
    learned = Calibration(FIRST_GUESS)
    for number in range(60):
        learned.observe((1.0,), 0.1 + number % 2 / 100)
    known = PoolSpeeds(pool("one"), "pool one", Basis.OBSERVED, learned, None, None, 0, 0)
    [view] = calibration_views([known])
    [time] = view.times
    assert (view.pools, time.name, time.taken, time.refused) == (("one",), "First token", "60", "")
    assert time.error.endswith("%") and time.inside.endswith("%")
    assert re.fullmatch(r"[0-9.]+ times|[0-9]+%", time.reached)


async def test_hostile_words_stay_text(running: Edge) -> None:
    hostile = VARIANT | {"quality": [MEASURED | {"method": HOSTILE}]}
    assert (await send(running, "PUT", "/variants/tale/int8", hostile))[0] == 200
    place = {"gpus_per_replica": 2, "region": HOSTILE, "zone": HOSTILE, "provider": HOSTILE}
    assert (await send(running, "PUT", "/pools/small", POOL | place))[0] == 200
    page = await look(running)
    assert page.count("&lt;script&gt;alert(1)") == 4
    assert "<script>alert" not in page and "<img src=x" not in page


async def test_stranger_is_led_to_the_door_and_back(running: Edge) -> None:
    async with browser(running) as client:
        answer = await client.get("/console/catalogue")
        assert (answer.status_code, answer.text) == (303, "")
        assert answer.headers["location"] == "/console/login?next=%2Fconsole%2Fcatalogue"
        given = {"key": "admin", "next": "/console/catalogue"}
        entered = await client.post("/console/login", data=given)
        assert entered.headers["location"] == "/console/catalogue"


async def test_database_that_is_away_is_said(
    running: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.parts.tenants, "_store", open_store("sqlite:////nowhere/at/all.db"))
    async with browser(running) as client:
        await sign_in(client)
        answer = await client.get("/console/catalogue")
        assert (answer.status_code, "does not answer" in answer.text) == (503, True)
