"""Invoice runs by the admin API: a job that is asked for, not a request that waits for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.invoices.runs import advance
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import edge
from tests.redis_server import RedisServer

RUNS = "/admin/v1/invoice-runs"


async def test_run_is_accepted_and_followed_to_its_end(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:

        async def asked(method: str, path: str = "", sent: Any = None) -> tuple[int, Any]:
            raw = b"" if sent is None else json.dumps(sent).encode()
            status, answer = await ask(one.app, method, RUNS + path, raw, "admin")
            if status in (200, 202):
                assert_described(one.app, method, RUNS + path, status, answer)
            return status, answer

        status, run = await asked("POST", "", {"period": "1970-01"})
        assert (status, run["state"], run["object"]) == (202, "queued", "invoice_run")
        assert (await asked("POST", "", {"period": "1970-01"}))[1]["id"] == run["id"]
        advance(one.parts.ledger, now_us=2**51, series="SLU", retry_after_us=0)
        status, ended = await asked("GET", f"/{run['id']}")
        assert (status, ended["state"], ended["done"], ended["of"]) == (200, "done", 0, 0)
        _, page = await asked("GET", "?limit=1")
        assert [each["id"] for each in page["data"]] == [run["id"]] and not page["has_more"]
        assert (await asked("GET", "/irun_0"))[0] == 404


@pytest.mark.parametrize("period", ["2026-13", "9000-01", ""])
async def test_what_is_no_month_that_has_begun_is_refused(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, period: str
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        raw = json.dumps({"period": period}).encode()
        status, answer = await ask(one.app, "POST", RUNS, raw, "admin")
        assert status == 400, answer
