"""docs/providers.md, followed to the letter: three of its examples, its faults and their words.

The servers are on loopback, so their URLs are all that is replaced in the examples.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from time import time
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.prices.versions import publish_prices
from billing.types import CallStatus
from gateway.commands import models
from gateway.errors import provider_misconfigured
from gateway.providers.presets import PRESETS
from gateway.upstream.check import OUTPUT_TOKENS
from tests.gateway.commands.sluice import Sluice, ready
from tests.gateway.edge import Edge, Response, body, edge
from tests.gateway.served import served
from tests.journeys.outside import Outside, Script
from tests.redis_server import RedisServer

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()
OWN, FIRST, SECOND, ADAPTED, KNOWN = (
    re.search(rf'```toml title="{title}.toml"\n(.*?)```', PAGE, re.DOTALL)[1]  # type: ignore[index]
    for title in ("own", "openai", "second", "anthropic", "openrouter")
)
OWN_POOL, FIRST_POOL, SECOND_POOL = "qwen-own", "gpt-4o-mini-openai", "gpt-4o-mini-openai-2"
KEYS = {
    "SLUICE_PROVIDER_KEY_OPENAI": "sk-first-account",
    "SLUICE_PROVIDER_KEY_OPENAI_2": "sk-second-account",
}
ACCOUNTS = [f"Bearer {key}" for key in KEYS.values()]
NOBODY = "http://127.0.0.1:9/v1"
WHOLE: dict[str, Any] = {"stream": False, "stream_options": None}
PATIENT = {"connect_timeout_s": 30.0}
"""For servers that are threads of a busy machine."""
PROMPT, CACHED, OUTPUT = 5, 4, 4
"""Tokens of what the servers answer."""


def table(heading: str) -> list[list[str]]:
    """The cells of the first table behind such words."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def statuses(told: str) -> list[int]:
    return [int(status) for status in re.findall(r"\b\d{3}\b", told)]


def cost_of(text: str) -> int:
    """What the answer costs a tenant, in nano-USD, by the prices of an example."""
    prices = dict(re.findall(r'(\w+)_usd_per_mtok = "([\d.]+)"', text.split("[[prices]]")[1]))
    of_cached = prices.get("cached_input", prices["input"])
    parts = ((PROMPT, prices["input"]), (CACHED, of_cached), (OUTPUT, prices["output"]))
    return sum(count * round(float(price) * 1000) for count, price in parts)


@dataclass
class Page:
    edge: Edge
    sluice: Sluice
    file: Path
    own: Outside
    first: Outside
    second: Outside

    async def apply(self, text: str, base_url: str | None = None) -> tuple[int, str, str]:
        """`sluice models apply`: its exit status and what it printed."""
        self.file.write_text(
            re.sub(r'"https?://[^"]+/v1"', f'"{base_url}"', text) if base_url else text
        )
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = await asyncio.to_thread(models.apply_file, self.file)
        return status, out.getvalue(), err.getvalue()

    async def nothing_is_left_alone(self) -> None:
        """Each fault is the first of its server."""
        self.edge.parts.breakers._breakers.clear()
        self.edge.parts.breakers.untold.clear()
        await self.edge.parts.fleet.refresh()

    async def post(self, model: str, **changes: Any) -> Response:
        return await self.edge.post(body(model=model, **WHOLE | changes))


@pytest.fixture
async def page(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Page]:
    """With all three examples applied, and their prices published as the ledger does."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLUICE_DATA", str(tmp_path))
    async with AsyncExitStack() as servers:
        own, first, second = (servers.enter_context(Outside()) for _ in range(3))
        one = await servers.enter_async_context(
            edge(redis_server, redis, tmp_path, gateway=PATIENT, environment=KEYS)
        )
        base_url = await servers.enter_async_context(served(one.app))
        sluice = ready(tmp_path / "ready", base_url)
        found = Page(one, sluice, tmp_path / "providers.toml", own, first, second)
        for text, server in ((OWN, own), (FIRST, first), (SECOND, second)):
            status, told, wrong = await found.apply(text, server.base_url)
            assert status == 0 and "\napplied: " in told and "note:" not in told, told + wrong
        await publish_prices(redis, one.parts.ledger, now_us=round(time() * 1e6))
        await one.parts.catalog.refresh()
        yield found


async def test_examples_send_their_key_and_model_and_charge_their_price(page: Page) -> None:
    for text, model, server in ((OWN, "qwen", page.own), (FIRST, "gpt-4o-mini", page.first)):
        if server is page.first:
            page.second.begin(Script(status=503))
        response = await page.post(model)
        assert response.status == 200, response.body
        named = re.search(r'upstream_model = "([^"]+)"', text)
        assert named and server.bodies[-1]["model"] == named[1]
        assert server.keys[-1] == (None if server is page.own else ACCOUNTS[0])
        assert round(float(response.headers["x-sluice-cost-usd"]) * 1e9) == cost_of(text)
    for call in (await page.edge.settled()).values():
        assert call.status is CallStatus.ANSWERED
        assert call.attempts[-1].input_nanousd_per_mtok > 0, "what it costs us"


async def test_second_key_takes_the_calls_that_the_first_is_refused_for(page: Page) -> None:
    for refused, other, pool, account in (
        (page.first, page.second, SECOND_POOL, ACCOUNTS[1]),
        (page.second, page.first, FIRST_POOL, ACCOUNTS[0]),
    ):
        refused.begin(Script(status=402))
        for _ in range(4):
            response = await page.post("gpt-4o-mini")
            assert (response.status, response.headers["x-sluice-pool"]) == (200, pool)
        assert set(other.keys) == {account}
        refused.begin(Script())


async def test_file_that_cannot_be_right_is_refused_in_the_words_of_the_page(page: Page) -> None:
    for wrong, words in table("Before anything is stored"):
        if wrong.startswith("no "):
            text = re.sub(r"upstream_model = .*\n", "", SECOND)
        else:
            line = wrong.strip("`")
            text = re.sub(rf"{line.split(' = ')[0]} = .*", line, SECOND)
        status, _, told = await page.apply(text)
        assert status == 1 and f"  {words.strip('`')}\n" in told, told


async def test_pool_with_an_adapter_is_taken_and_its_key_is_not_looked_for_here(page: Page) -> None:
    status, told, wrong = await page.apply(ADAPTED)
    assert status == 0 and "\napplied: " in told and "note:" not in told, told + wrong
    without_provider = ADAPTED.replace("anthropic/claude", "claude")
    status, _, told = await page.apply(without_provider)
    assert status == 1 and "pools.0.adapter: write its provider into upstream_model" in told, told


async def test_pool_of_a_known_server_is_filled_in_as_the_page_says(page: Page) -> None:
    status, told, wrong = await page.apply(KNOWN)
    assert status == 0 and "\napplied: " in told, told + wrong
    rows = table("`preset` fills in")
    assert [row[0].strip("`") for row in rows] == [*PRESETS]
    for preset, base_url, api_key_env, besides in rows:
        fields = dict(PRESETS[preset.strip("`")])
        if base_url != "say it":
            assert (fields["base_url"], fields["api_key_env"]) == (
                base_url.strip("`"),
                api_key_env.strip("`"),
            )
        said = re.findall(r"`([^`]+)`", besides)
        assert [n for n in said if n != "extra_fields" and " = " not in n] == (
            fields["extra_fields"]
        )


FAULTS = table("Once calls run")


async def test_refusals_are_told_to_tenant_and_operator_as_the_page_says(page: Page) -> None:
    expected: dict[int, str] = {}
    for provider, told, outcome in FAULTS:
        for status in statuses(provider):
            await page.nothing_is_left_alone()
            page.own.begin(Script(status=status))
            response = await page.post("qwen")
            assert response.status == statuses(told)[0], (status, response.body)
            error = response.json["error"]
            if response.status == 400:
                assert error["message"] == "not today"
            else:
                assert f"`{error['code']}`" in told and "not today" not in error["message"]
            expected[status] = outcome.strip("`")
    attempts = [a for call in (await page.edge.settled()).values() for a in call.attempts]
    assert {a.status: a.outcome for a in attempts} == expected
    assert all("not today" in str(a.detail) for a in attempts)
    assert str(provider_misconfigured()) in " ".join(PAGE.replace("\n>", "").split())


async def test_server_that_is_not_there_or_hangs_up_is_told_as_the_page_says(page: Page) -> None:
    *_, (_, of_absent, outcome), (_, of_cut, _) = FAULTS
    page.own.begin(Script(cut_after=2))
    response = await page.post("qwen", stream=True)
    assert "[DONE]" not in response.events
    assert f"`{response.chunks[-1]['error']['code']}`" in of_cut
    await page.apply(OWN, NOBODY)
    await page.edge.parts.catalog.refresh()
    response = await page.post("qwen")
    assert (response.status, f"`{response.error_code}`" in of_absent) == (503, True)
    last = [call.attempts[-1].outcome for call in (await page.edge.settled()).values()][-1]
    assert f"`{last}`" == outcome


async def test_check_says_that_a_pool_works_or_what_to_look_at(page: Page) -> None:
    told = await page.sluice("pools", "check", FIRST_POOL)
    where = f"gpt-4o-mini at {page.first.base_url} answered in "
    assert told.startswith(f"{FIRST_POOL}: works: {where}")
    assert page.first.keys == [ACCOUNTS[0]]
    assert f"{page.first.bodies[0]['max_tokens']} tokens at most" in PAGE and OUTPUT_TOKENS
    *rows, (_, of_absent) = table("`sluice pools check` ends")
    for provider, words in rows:
        (status,) = statuses(provider)
        page.first.begin(Script(status=status))
        done = await page.sluice.run("pools", "check", FIRST_POOL)
        first, hint, said = done.stdout.splitlines()
        assert done.exit_code == 1 and first.startswith(f"{FIRST_POOL}: does not work: ")
        assert f", status {status} " in first and hint == f"  {words}" and "not today" in said
    await page.apply(OWN, NOBODY)
    done = await page.sluice.run("pools", "check", OWN_POOL)
    assert done.exit_code == 1 and f"  {of_absent}\n" in done.stdout


async def test_pool_without_its_variable_takes_no_call_and_apply_says_so(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_DATA", str(tmp_path))
    async with edge(redis_server, redis, tmp_path) as one:
        page = Page(one, Sluice(tmp_path), tmp_path / "p.toml", *[Outside() for _ in range(3)])
        status, told, _ = await page.apply(FIRST)
        words = "the variable SLUICE_PROVIDER_KEY_OPENAI, which holds its key, is not set"
        assert (
            status == 0
            and f"note: pool {FIRST_POOL}: {words} in this shell. It takes no call" in told
        )
        assert f"as `sluice pools check {FIRST_POOL}` says\n" in told
        assert f"`not set up: {words}`" in PAGE
