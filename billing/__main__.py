"""`python -m billing`: the ledger process, its composition root.

Writer, reaper, primer, credits and the publishing of prices, as tasks of one group: if one dies of
a fault in the program, all end, and the supervisor starts the process again. It may be killed at
any time.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.costs.life_writer import LifeWriter
from billing.credits.keeper import CreditKeeper
from billing.db.engine import Store, open_store
from billing.db.reachable import once_sql_is_there
from billing.decisions.writer import DecisionWriter
from billing.dunning.keeper import DunningKeeper
from billing.invoices.run_keeper import InvoiceRunKeeper, Pace
from billing.limits.holds import Holds
from billing.outbox.keeper import OutboxKeeper
from billing.outbox.mail.channel import MailChannel
from billing.outbox.mail.server import THREADS, MailServer
from billing.outbox.sender import WebhookSender, resolved
from billing.prices.versions import PriceError, load_book, publish_prices, seed
from billing.recovery.primer import Primer
from billing.recovery.reaper import Reaper
from billing.settings import (
    CONFIG_VARIABLE,
    BillingSettings,
    MailSettings,
    TaxSettings,
    VatLookups,
    guards_of,
)
from billing.spool.keeper import SpoolKeeper
from billing.spool.orphans import Orphans
from billing.tasks import end
from billing.taxes.vat_keeper import VatKeeper
from billing.taxes.vies import Vies
from billing.tuning import collect_less, switch_often, take_long_turns
from billing.writer.stream import UsageStreams
from billing.writer.writer import Writer

log = logging.getLogger("sluice.ledger")

MICROSECONDS = 1_000_000
HOLDS_TIMEOUT_S = 5.0


def now() -> float:
    return time.time()  # noqa: TID251 - the one clock of this process


def tick() -> float:
    return time.monotonic()  # noqa: TID251 - the one clock of this process


def main() -> int:
    """Run until SIGTERM or SIGINT. The exit code is 2 for settings that do not read, and 3 for a
    database without its tables. A database that is away is waited for."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s"
    )
    arguments = _arguments()
    if arguments.config:
        os.environ[CONFIG_VARIABLE] = arguments.config
    try:
        settings = BillingSettings(**({"data": arguments.data} if arguments.data else {}))
    except ValidationError as error:
        print(f"ledger: settings do not read: {error}", file=sys.stderr)
        return 2
    store = open_store(settings.sql)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is begun yet that wants an end
    try:
        once_sql_is_there(
            lambda: _begin(store, settings),
            pause_s=settings.ledger.outage_pause_s,
            sleep=time.sleep,
        )
    except (SQLAlchemyError, PriceError) as error:
        why = str(error).partition("\n")[0]
        print(f"ledger: the database is not ready (sluice migrate?): {why}", file=sys.stderr)
        return 3
    collect_less()
    switch_often()
    take_long_turns()
    asyncio.run(_serve(settings, store))
    store.close()
    return 0


def _begin(store: Store, settings: BillingSettings) -> None:
    """Load the price book and seed it. SQL is asked even where the settings seed nothing."""
    load_book(store)
    seed(store, settings.prices, now_us=int(now() * MICROSECONDS))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m billing", description=__doc__)
    parser.add_argument("--config", help="settings file (TOML)")
    parser.add_argument("--data", help="data folder")
    return parser.parse_args()


async def _serve(settings: BillingSettings, store: Store) -> None:
    """Start every part. When the first one ends, all end."""
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    redis = Redis.from_url(settings.redis)
    holds = Holds(redis, timeout_s=HOLDS_TIMEOUT_S)
    ledger = settings.ledger
    writer = Writer(UsageStreams(redis, ledger.consumer), store, ledger, now=now, tick=tick)
    reaper = Reaper(redis, holds, store, settings.spool, ledger, now=now)
    keeper = SpoolKeeper(settings.spool, store, ledger, now=now)
    credits = CreditKeeper(redis, store, ledger, now=now, tick=tick)
    announce = _announce_once(redis, store, credits)
    orphans = Orphans(settings.spool, holds, store, now=now)
    primer = Primer(
        *(redis, holds, store, ledger),
        now=now,
        tick=tick,
        spools=orphans,
        on_open=announce,
    )
    lives = LifeWriter(redis, store, interval_s=ledger.life_interval_s, now=now)
    decisions = DecisionWriter(redis, store, ledger, now=now)
    publisher = _publish(redis, store, ledger.publish_interval_s)
    guards = guards_of(ledger, settings.tax)
    pace = Pace(tick, time.sleep)
    invoices = InvoiceRunKeeper(store, ledger, now=now, pace=pace, guards=guards)
    outbox = OutboxKeeper(
        store,
        WebhookSender(
            *(ledger.webhook_networks, ledger.webhook_timeout_s),
            resolve=resolved,
            tls=ssl.create_default_context(),
        ),
        interval_s=ledger.webhook_interval_s,
        keep_days=ledger.webhook_keep_days,
        usage_interval_s=ledger.webhook_usage_interval_s,
        now=now,
        mail=_mail(store, settings.mail),
    )
    dunning = DunningKeeper(
        store,
        [entry.as_step for entry in settings.dunning],
        interval_s=ledger.dunning_interval_s,
        now=now,
    )
    books = credits.run(), invoices.run(), outbox.run(), dunning.run(), *_vat(store, settings.tax)
    beside = lives.run(), decisions.run(), keeper.run(), *books
    runs = writer.run(), reaper.run(), primer.run(), *beside
    parts = [asyncio.create_task(part) for part in (*runs, publisher, stop.wait())]
    done, running = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    await end(*running)
    await redis.aclose()
    for task in done:
        task.result()


def _vat(store: Store, settings: TaxSettings) -> Iterator[Coroutine[Any, Any, None]]:
    """The part that has VAT ids looked up, where there is one."""
    if settings.vat_lookup is VatLookups.VIES:
        tls = ssl.create_default_context()
        vies = Vies(settings.vat_lookup_url, settings.vat_lookup_timeout_s, tls)
        yield VatKeeper(store, vies, settings, now=now).run()


def _mail(store: Store, settings: MailSettings) -> MailChannel | None:
    if not settings.host:
        return None
    server = MailServer(
        *(settings.host, settings.port, settings.security),
        *(settings.user, os.environ.get(settings.password_env, "")),
        settings.timeout_s,
        tls=ssl.create_default_context(),
        threads=ThreadPoolExecutor(THREADS, thread_name_prefix="mail"),
    )
    return MailChannel(store, server, settings.sender)


def _announce_once(
    redis: Redis, store: Store, credits: CreditKeeper
) -> Callable[[str], Awaitable[None]]:
    """Make the callback for open shards. It publishes prices and credits, and prints `ready`
    once."""
    is_ready = False

    async def announce(_run_id: str) -> None:
        nonlocal is_ready
        await publish_prices(redis, store, now_us=int(now() * MICROSECONDS))
        await credits.publish()
        if not is_ready:
            is_ready = True
            print("ready ledger", flush=True)

    return announce


async def _publish(redis: Redis, store: Store, interval_s: float) -> None:
    """Keep `sluice:prices` in line with SQL, also when a version begins or Redis was emptied."""
    while True:
        try:
            await publish_prices(redis, store, now_us=int(now() * MICROSECONDS))
        except (RedisError, OSError, SQLAlchemyError) as error:
            log.warning("prices are not published: %s", error)
        await asyncio.sleep(interval_s)


if __name__ == "__main__":
    sys.exit(main())
