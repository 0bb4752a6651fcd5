"""`sluice ledger verify`: every law of money, checked against the rows themselves.

Reads only, in short snapshots: no check of a long table keeps one open. The counters of Redis are
compared where Redis answers. Everything else needs SQL and, for completeness, the folder of the
spools. A break names the first row that offends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy import Connection

from billing.bills import laws as bills
from billing.books.closing import closed_periods_stay
from billing.budgets import laws as budgets
from billing.charges import laws as charges
from billing.costs import laws as costs
from billing.credit_notes import laws as credit_notes
from billing.credits import laws as credits
from billing.db.engine import Store
from billing.invoices import laws as invoices
from billing.ledger import laws as money
from billing.ledger.report import Check, Progress, Report, silent
from billing.limits import laws as spending
from billing.limits.holds import Holds
from billing.limits.types import HoldState, LimitsUnavailable
from billing.payments import laws as payments
from billing.recovery import laws as calls
from billing.spool import laws as spooled
from billing.spool.laws import Unbooked
from billing.statements import laws as statements
from billing.top_ups import laws as top_ups
from billing.usage import call_laws, sum_laws
from billing.usage.call_laws import Sample

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
    """Run every check. Those that need Redis are `not checked` where it does not answer.

    `sample` is rated again, by default SAMPLE_RECORDS with the time as the seed.
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
    invoices.taxes_add_up,
    invoices.terms_are_booked,
    invoices.numbers_have_no_gap,
    payments.payments_are_accounted_for,
    payments.credits_are_given_once,
    statements.statements_are_the_ledger,
    top_ups.top_ups_are_paid_credit,
    closed_periods_stay,
    credit_notes.notes_add_up,
    credits.laws_of_credits,
    *costs.LAWS,
    bills.variances_are_posted,
    budgets.sums_recompute,
)
"""Laws that one statement or few can judge; each has a snapshot of its own."""

IN_PARTS: tuple[Callable[[Store, Progress], list[Check]], ...] = (
    sum_laws.sums_recompute,
    charges.charges_recompute,
)
"""Laws of long tables, looked at a part at a time."""


def _in_sql(store: Store, before_us: int, sample: Sample, progress: Progress) -> list[Check]:
    checks: list[Check] = []
    for number, law in enumerate(IN_ONE_SNAPSHOT):
        progress("accounts and invoices", number, len(IN_ONE_SNAPSHOT))
        with store.read() as conn:
            result = law(conn)
        checks += result if isinstance(result, list) else [result]
    with store.read() as conn:
        checks.append(calls.no_stale_hold(conn, before_us))
    checks += call_laws.of_every_call(store, sample, progress)
    for long_law in IN_PARTS:
        checks += long_law(store, progress)
    return checks


async def _spools(
    store: Store, root: Path, redis: Redis | None, before_us: int, progress: Progress
) -> list[Check]:
    """Check the spools. A call that is between spool, stream and SQL is no break, so missing calls
    are looked at again."""
    findings = await asyncio.to_thread(spooled.look_through, store, root, before_us, progress)
    missing = findings.unbooked
    for attempt in range(IN_FLIGHT_ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE_S)
            missing = await asyncio.to_thread(spooled.still_unbooked, store, missing)
        missing = await _not_open(missing, redis, before_us)
        if not missing:
            break
    return [
        spooled.nothing_missing(findings, missing),
        spooled.replay_adds_nothing(findings),
        spooled.spools_unchanged(findings),
    ]


async def _not_open(
    missing: Sequence[Unbooked], redis: Redis | None, before_us: int
) -> list[Unbooked]:
    """The calls that Redis does not hold open. Where Redis does not answer, the calls that are
    old."""
    if redis is None:
        return [call for call in missing if call.admitted_us < before_us]
    holds = Holds(redis)
    try:
        pairs = [(call, await holds.read(call.rid, call.org)) for call in missing]
    except LimitsUnavailable:
        return [call for call in missing if call.admitted_us < before_us]
    return [call for call, hold in pairs if hold is None or hold.state != HoldState.HELD]


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


def progress_on(out: TextIO, tick: Callable[[], float]) -> Progress:
    """Show progress on a terminal, in one line that the next one replaces. The first seconds show
    nothing. Empty progress clears the line."""
    start_s = tick()

    def tell(what: str, count: int, of: int) -> None:
        if what and tick() - start_s < PATIENCE_S:
            return
        so_far = f" {count:,} of {of:,}" if of else ""
        print(f"\r\x1b[K{what and 'checking '}{what}{so_far}", end="", file=out, flush=True)

    return tell
