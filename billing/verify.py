"""`sluice ledger verify`: every law of money, checked against the rows themselves.

Reads only, in short snapshots: no check of a long table keeps one open. What Redis knows is
compared where Redis answers; everything else needs SQL and, for completeness, the folder of the
spools. A break names the first row that offends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from billing.checks import (
    budgets,
    calls,
    charges,
    costs,
    credits,
    invoices,
    money,
    spending,
    spooled,
    usage,
)
from billing.checks.charges import Sample
from billing.checks.report import Check, Progress, Report, silent
from billing.checks.spooled import Unbooked
from billing.limits.holds import Holds
from billing.limits.types import HoldState, LimitsUnavailable
from billing.settings import BillingSettings
from billing.store.engine import Store, open_store

MICROSECONDS = 1_000_000
HOLD_AGE_MAX_S = 3600.0
IN_FLIGHT_ATTEMPTS = 10
PAUSE_S = 0.2
SAMPLE_RECORDS = 50_000
PATIENCE_S = 3.0


async def verify_all(
    store: Store,
    *,
    now_us: int,
    spool_root: Path | None = None,
    redis: Redis | None = None,
    hold_age_max_s: float = HOLD_AGE_MAX_S,
    sample: Sample | None = None,
    progress: Progress = silent,
) -> Report:
    """Every check; those that need Redis are `not checked` where it does not answer.

    Rates `sample` again, by default of SAMPLE_RECORDS with the time as its seed.
    """
    before_us = now_us - int(hold_age_max_s * MICROSECONDS)
    sample = sample or Sample(SAMPLE_RECORDS, now_us)
    checks = await asyncio.to_thread(_in_sql, store, before_us, sample, progress)
    if spool_root is not None:
        checks += await _spools(store, spool_root, redis, before_us, progress)
    progress("what Redis counts", 0, 0)
    checks += await _in_redis(redis, store)
    return Report(tuple(checks))


def verify(
    store: Store,
    *,
    now_us: int,
    spool_root: Path | None = None,
    redis_url: str | None = None,
    hold_age_max_s: float = HOLD_AGE_MAX_S,
    sample: Sample | None = None,
    progress: Progress = silent,
) -> Report:
    """`verify_all` for callers without an event loop."""

    async def run() -> Report:
        redis = Redis.from_url(redis_url) if redis_url else None
        try:
            return await verify_all(
                store,
                now_us=now_us,
                spool_root=spool_root,
                redis=redis,
                hold_age_max_s=hold_age_max_s,
                sample=sample,
                progress=progress,
            )
        finally:
            if redis:
                await redis.aclose()

    return asyncio.run(run())


IN_ONE_SNAPSHOT: tuple[Callable[[Connection], Check | list[Check]], ...] = (
    money.debits_equal_credits,
    money.totals_recompute,
    calls.no_dead_letter,
    invoices.lines_add_up,
    invoices.numbers_have_no_gap,
    credits.laws_of_credits,
    *costs.LAWS,
    budgets.sums_recompute,
)
"""Laws that one statement or few can judge; each has a snapshot of its own."""

IN_PARTS: tuple[Callable[[Store, Progress], list[Check]], ...] = (usage.sums_recompute,)
"""Laws of long tables, looked at a part at a time."""


def _in_sql(store: Store, before_us: int, sample: Sample, progress: Progress) -> list[Check]:
    checks: list[Check] = []
    for number, law in enumerate(IN_ONE_SNAPSHOT):
        progress("accounts and invoices", number, len(IN_ONE_SNAPSHOT))
        with store.read() as conn:
            found = law(conn)
        checks += found if isinstance(found, list) else [found]
    with store.read() as conn:
        checks.append(calls.no_stale_hold(conn, before_us))
    checks += charges.of_every_call(store, sample, progress)
    for long_law in IN_PARTS:
        checks += long_law(store, progress)
    return checks


async def _spools(
    store: Store, root: Path, redis: Redis | None, before_us: int, progress: Progress
) -> list[Check]:
    """A call between spool, stream and SQL is no break: look again before saying so."""
    found = await asyncio.to_thread(spooled.look_through, store, root, before_us, progress)
    missing = found.unbooked
    for attempt in range(IN_FLIGHT_ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE_S)
            missing = await asyncio.to_thread(spooled.still_unbooked, store, missing)
        missing = await _not_open(missing, redis, before_us)
        if not missing:
            break
    return [
        spooled.nothing_missing(found, missing),
        spooled.replay_adds_nothing(found),
        spooled.spools_unchanged(found),
    ]


async def _not_open(
    missing: Sequence[Unbooked], redis: Redis | None, before_us: int
) -> list[Unbooked]:
    """Those that Redis does not hold open; where it does not answer, those that are old."""
    if redis is None:
        return [call for call in missing if call.admitted_us < before_us]
    holds = Holds(redis)
    try:
        found = [(call, await holds.read(call.rid, call.org)) for call in missing]
    except LimitsUnavailable:
        return [call for call in missing if call.admitted_us < before_us]
    return [call for call, hold in found if hold is None or hold.state != HoldState.HELD]


async def _in_redis(redis: Redis | None, store: Store) -> list[Check]:
    if redis is None:
        return _unasked("no Redis was given")
    try:
        matches = await spending.redis_matches(redis, store)
        return [*matches, await budgets.purses_match(redis, store)]
    except (RedisError, LimitsUnavailable, OSError) as error:
        return _unasked(f"Redis does not answer: {error}")


def _unasked(reason: str) -> list[Check]:
    return [*spending.not_checked(reason), budgets.not_checked(reason)]


def main() -> int:
    """`python -m billing.verify [--json]`: 1 if a law is broken, 2 if it cannot be told."""
    parser = argparse.ArgumentParser(prog="python -m billing.verify")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--sample",
        type=int,
        default=SAMPLE_RECORDS,
        help="about how many records to rate again (default %(default)s; 0: none)",
    )
    parser.add_argument("--seed", type=int, help="which records those are (default: by the clock)")
    arguments = parser.parse_args()
    settings = BillingSettings()
    store = open_store(settings.sql)
    now_us = int(time.time() * MICROSECONDS)  # noqa: TID251 - a command's own clock
    seed = now_us if arguments.seed is None else arguments.seed
    progress = told_on(sys.stderr, time.monotonic) if sys.stderr.isatty() else silent  # noqa: TID251
    try:
        report = verify(
            store,
            now_us=now_us,
            spool_root=settings.spool,
            redis_url=settings.redis,
            hold_age_max_s=settings.ledger.hold_age_max_s,
            sample=Sample(arguments.sample, seed),
            progress=progress,
        )
    except SQLAlchemyError as error:
        why = str(error).splitlines()[0]
        print(f"there is no ledger to read at {store.engine.url}: {why}", file=sys.stderr)
        return 2
    finally:
        progress("", 0, 0)
    print(json.dumps(report.as_json(), indent=2) if arguments.json else report.as_text())
    return 0 if report.ok else 1


def told_on(out: TextIO, tick: Callable[[], float]) -> Progress:
    """Progress on a terminal, in one line that the next replaces; nothing in the first seconds.
    Nothing to look at clears the line."""
    begun = tick()

    def tell(what: str, done: int, of: int) -> None:
        if what and tick() - begun < PATIENCE_S:
            return
        so_far = f" {done:,} of {of:,}" if of else ""
        print(f"\r\x1b[K{what and 'checking '}{what}{so_far}", end="", file=out, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
