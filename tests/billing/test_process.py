"""The ledger as processes: killed while it writes, asked to verify, asked for invoices."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.db.engine import Store
from billing.limits.keys import shard_of, usage_key
from billing.periods import period_at
from billing.queries import usage_summary
from billing.types import encode
from billing.writer.dead_letters import listed
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.billing.ledger_parts import eventually
from tests.nursery import Part, ledger_main, sluice
from tests.redis_server import RedisServer

ROOT = Path(__file__).parents[2]
CALLS = 1500
BOOKED_WITHIN_S = 90.0
AMOUNT = 220 + 1120 + 1


def environment(server: RedisServer, store: Store, data: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")},
        "PYTHONPATH": str(ROOT),
        "SLUICE_DATA": str(data),
        "SLUICE_REDIS_URL": server.url,
        "SLUICE_SQL_URL": str(store.engine.url),
        "SLUICE_LEDGER__LINGER_MS": "0",
        "SLUICE_LEDGER__BATCH_MAX": "25",  # so that a kill finds some of them not booked yet
        "SLUICE_LEDGER__MARK_INTERVAL_S": "0.1",
        "SLUICE_LEDGER__RECOVERY_GRACE_S": "0.1",  # no gateway will come
    }


@contextmanager
def ledger(env: dict[str, str], *, with_stderr: bool = False) -> Iterator[Part]:
    process = Part(ledger_main, env=env, with_stderr=with_stderr)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def fill(redis: Redis) -> None:
    pipe: Any = redis.pipeline(transaction=False)
    for number in range(CALLS):
        opened = opened_call(f"req_{number}", org=f"org_{number % 7}")
        call = settled_call(opened, AMOUNT)
        key = usage_key(shard_of(opened.org))
        pipe.xadd(key, {"k": "reserved", "r": opened.rid, "p": encode(opened)})
        pipe.xadd(key, {"k": "settled", "r": opened.rid, "p": encode(call)})
    await pipe.execute()


def booked(store: Store) -> int:
    (total,) = usage_summary(store, None, 0, 2 * ADMITTED_US)
    return total.requests


async def more_booked(store: Store, before: int) -> None:
    await eventually(lambda: booked(store) > before, BOOKED_WITHIN_S)


async def test_a_writer_killed_mid_batch_books_every_call_once(
    redis_server: RedisServer, redis: Redis, store: Store, tmp_path: Path
) -> None:
    env = environment(redis_server, store, tmp_path)
    rng = random.Random(7)
    await fill(redis)
    for _ in range(2):
        before = booked(store)
        with ledger(env):
            await more_booked(store, before)
            await asyncio.sleep(rng.random() * 0.1)
    with ledger(env) as process:
        await eventually(lambda: booked(store) == CALLS, BOOKED_WITHIN_S)
        assert await asyncio.to_thread(process.stdout.readline) == b"ready ledger\n"
        report = await asyncio.to_thread(_run, env, "ledger", "verify", "--json")
        checks = {check["name"]: check for check in report["checks"]}
        assert report["ok"], report
        assert checks["I11 spent_in_redis"]["outcome"] == "holds"
    (total,) = usage_summary(store, None, 0, 2 * ADMITTED_US)
    assert total.amount_nanousd == CALLS * AMOUNT
    invoices = await asyncio.to_thread(
        _run, env, "invoice", "run", "--period", period_at(ADMITTED_US).name
    )
    assert len(invoices["invoices"]) == 7


async def test_a_broken_law_is_exit_status_one(
    redis_server: RedisServer, store: Store, tmp_path: Path
) -> None:
    env = environment(redis_server, store, tmp_path)
    with store.write() as conn:
        conn.exec_driver_sql("INSERT INTO account VALUES ('a', NULL, 'USD', 1, 0)")
    ended = await asyncio.to_thread(_sluice, env, "ledger", "verify")
    assert ended.returncode == 1
    assert "I1 debits_equal_credits" in ended.stdout


@pytest.mark.parametrize(
    "asked",
    [
        (
            "ledger",
            "verify",
        ),
        ("invoice", "run", "--period", "2026-10"),
        ("ledger", "dead-letters"),
        ("ledger", "dead-letters", "retry", "--all"),
    ],
)
def test_ledger_that_is_not_there_is_one_clear_line(tmp_path: Path, asked: tuple[str, ...]) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SLUICE_DATA": str(tmp_path / "no")}
    ended = _sluice(env, *asked)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    assert f"there is no ledger to read at sqlite:///{tmp_path}/no/sluice.db" in ended.stderr


async def test_a_month_that_is_none_is_one_clear_line(
    redis_server: RedisServer, store: Store, tmp_path: Path
) -> None:
    env = environment(redis_server, store, tmp_path)
    ended = await asyncio.to_thread(_sluice, env, "invoice", "run", "--period", "2026-13")
    assert ended.returncode == 2
    assert ended.stderr == "'2026-13' is not a month of the form YYYY-MM\n"


async def test_an_operator_walks_through_the_dead_letters(
    redis_server: RedisServer, redis: Redis, store: Store, tmp_path: Path
) -> None:
    env = environment(redis_server, store, tmp_path)

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        return _sluice(env, "ledger", "dead-letters", *arguments)

    await redis.xadd(usage_key(shard_of("org_1")), {"k": "settled", "r": "req_1", "p": b"{bad"})
    wrong = encode(settled_call(opened_call("req_2"), 5))
    await redis.xadd(usage_key(shard_of("org_1")), {"k": "settled", "r": "req_2", "p": wrong})
    env["SLUICE_LEDGER__RETRY_AFTER_S"] = "0.1"
    with ledger(env):
        await eventually(lambda: len(listed(store)) == 2, 30)
    malformed = next(letter for letter in listed(store) if letter.reason == "malformed")
    (other,) = {letter.number for letter in listed(store)} - {malformed.number}
    told = await asyncio.to_thread(asked)
    assert told.returncode == 0 and "2 open, 0 booked later, 0 judged" in told.stdout
    assert "req_1" in told.stdout and "amount_mismatch" in told.stdout
    shown = await asyncio.to_thread(asked, "--show", str(malformed.number))
    assert json.loads(shown.stdout)["payload"] == "{bad"
    tried = await asyncio.to_thread(asked, "retry", "--all")
    assert tried.returncode == 1
    assert tried.stderr.startswith(f"{malformed.number}: cannot be booked: malformed: ")
    for number in (malformed.number, other):
        judged = await asyncio.to_thread(
            asked, "resolve", str(number), "--note", "we broke it", "--by", "ann"
        )
        assert judged.returncode == 0, judged.stderr
        assert f"{number}: judged by ann at" in judged.stdout
    again = await asyncio.to_thread(asked, "resolve", str(other), "--note", "x", "--by", "bob")
    assert again.returncode == 1 and "it was judged by ann: we broke it" in again.stderr
    report = await asyncio.to_thread(_run, env, "ledger", "verify", "--json")
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["no_dead_letter"]["detail"] == "2 judged, 0 booked later"
    told = await asyncio.to_thread(asked, "--all", "--json")
    assert [letter["resolution"]["by"] for letter in json.loads(told.stdout)["dead_letters"]] == [
        "ann",
        "ann",
    ]


async def test_a_letter_that_is_not_there_is_exit_status_one(
    redis_server: RedisServer, store: Store, tmp_path: Path
) -> None:
    env = environment(redis_server, store, tmp_path)
    for words in (("--show", "9"), ("retry", "9"), ("resolve", "9", "--note", "x")):
        ended = await asyncio.to_thread(_sluice, env, "ledger", "dead-letters", *words)
        assert (ended.returncode, ended.stderr) == (1, "there is no dead letter 9\n")


def _run(env: dict[str, str], *arguments: str) -> dict[str, Any]:
    ended = _sluice(env, *arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _sluice(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return sluice(*arguments, env=env)
