"""`sluice ledger verify`: every law of money, checked against the rows themselves.

Reads only. What Redis knows is compared where Redis answers; everything else needs SQL and, for
completeness, the folder of the spools. A break names the first row that offends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.checks import calls, invoices, money, spending, usage
from billing.checks.report import Check, Report
from billing.limits.holds import Holds
from billing.limits.types import HoldState, LimitsUnavailable
from billing.prices import book_of
from billing.settings import BillingSettings
from billing.store.engine import Store, open_store
from billing.types import OpenedCall

MICROSECONDS = 1_000_000
HOLD_AGE_MAX_S = 3600.0
IN_FLIGHT_ATTEMPTS = 10
PAUSE_S = 0.2


async def verify_all(
    store: Store,
    *,
    now_us: int,
    spool_root: Path | None = None,
    redis: Redis | None = None,
    hold_age_max_s: float = HOLD_AGE_MAX_S,
) -> Report:
    """Every check; those that need Redis are `not checked` where it does not answer."""
    checks = await asyncio.to_thread(_in_sql, store, now_us, hold_age_max_s)
    if spool_root is not None:
        checks += await _spools(store, spool_root, redis, now_us, hold_age_max_s)
    checks.append(await _spent(redis, store))
    return Report(tuple(checks))


def verify(
    store: Store,
    *,
    now_us: int,
    spool_root: Path | None = None,
    redis_url: str | None = None,
    hold_age_max_s: float = HOLD_AGE_MAX_S,
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
            )
        finally:
            if redis:
                await redis.aclose()

    return asyncio.run(run())


def _in_sql(store: Store, now_us: int, hold_age_max_s: float) -> list[Check]:
    before_us = now_us - int(hold_age_max_s * MICROSECONDS)
    with store.read() as conn:
        return [
            money.debits_equal_credits(conn),
            money.totals_recompute(conn),
            money.one_charge_per_call(conn),
            money.nets_are_exact(conn),
            money.amounts_rerate(conn, book_of(conn)),
            usage.hours_recompute(conn),
            usage.days_recompute(conn),
            calls.no_stale_hold(conn, before_us),
            calls.no_dead_letter(conn),
            invoices.lines_add_up(conn),
            invoices.numbers_have_no_gap(conn),
        ]


async def _spools(
    store: Store, root: Path, redis: Redis | None, now_us: int, hold_age_max_s: float
) -> list[Check]:
    """A call between spool, stream and SQL is no break: look again before saying so."""
    spooled = await asyncio.to_thread(calls.read_spools, root)
    missing: Sequence[OpenedCall] = ()
    for attempt in range(IN_FLIGHT_ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE_S)
        with store.read() as conn:
            missing = calls.missing_calls(conn, spooled)
        missing = await _not_open(missing, redis, now_us - int(hold_age_max_s * MICROSECONDS))
        if not missing:
            break
    with store.read() as conn:
        return [
            calls.nothing_missing(spooled, missing),
            calls.spools_unchanged(conn, spooled),
        ]


async def _not_open(
    missing: Sequence[OpenedCall], redis: Redis | None, before_us: int
) -> list[OpenedCall]:
    """Those that Redis does not hold open; where it does not answer, those that are old."""
    if redis is None:
        return [call for call in missing if call.admitted_us < before_us]
    holds = Holds(redis)
    try:
        found = [(call, await holds.read(call.rid, call.org)) for call in missing]
    except LimitsUnavailable:
        return [call for call in missing if call.admitted_us < before_us]
    return [call for call, hold in found if hold is None or hold.state != HoldState.HELD]


async def _spent(redis: Redis | None, store: Store) -> Check:
    if redis is None:
        return spending.not_checked("no Redis was given")
    try:
        return await spending.spent_matches(redis, store)
    except (RedisError, LimitsUnavailable, OSError) as error:
        return spending.not_checked(f"Redis does not answer: {error}")


def main() -> int:
    """`python -m billing.verify [--json]`: 1 if a law is broken, 2 if it cannot be told."""
    parser = argparse.ArgumentParser(prog="python -m billing.verify")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    arguments = parser.parse_args()
    settings = BillingSettings()
    store = open_store(settings.sql)
    try:
        report = verify(
            store,
            now_us=int(time.time() * MICROSECONDS),  # noqa: TID251 - a command's own clock
            spool_root=settings.spool,
            redis_url=settings.redis,
            hold_age_max_s=settings.ledger.hold_age_max_s,
        )
    except SQLAlchemyError as error:
        why = str(error).splitlines()[0]
        print(f"there is no ledger to read at {store.engine.url}: {why}", file=sys.stderr)
        return 2
    print(json.dumps(report.as_json(), indent=2) if arguments.json else report.as_text())
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
