"""What was bought before the sums by day and key is in them."""

from __future__ import annotations

from alembic import command

from billing.costs import laws
from billing.costs import store as costs
from billing.db.engine import open_store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.report import Outcome
from billing.prices.book import Component, PriceRate, PriceVersion, make_book
from billing.types import Attempt, encode
from migrations.run import alembic_config, migrate, rebuilding
from tests.billing.calls import ADMITTED_US, opened_call, settled_call

BEFORE = "0073"
RATES = tuple(
    [
        PriceRate(model="tale-large", tier="default", component=part, nanousd_per_mtok=1)
        for part in (Component.INPUT, Component.OUTPUT)
    ]
)
BOOK = make_book([PriceVersion("pv_1", 1, None, RATES)])


def test_attempts_that_are_there_are_summed(url: str) -> None:
    migrate(url)
    store = open_store(url)
    bought = Attempt(
        pool="outside",
        replica="external:outside/KEY_A",
        started_us=ADMITTED_US,
        ended_us=ADMITTED_US + 1,
        outcome="answered",
        input=44,
        input_nanousd_per_mtok=1_000_000,
    )
    calls = [
        settled_call(opened_call(f"req_{n}"), 0, attempts=[bought, bought], pool="outside")
        for n in range(2)
    ]
    records = [Record(0, f"{n}-0", "settled", c.rid, encode(c)) for n, c in enumerate(calls)]
    with store.write() as conn:
        batch = booking.read(records, BOOK, ADMITTED_US + 10)
        assert not booking.book(conn, batch).failures
    with rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), BEFORE)
        command.upgrade(alembic_config(conn), "head")
    with store.read() as conn:
        assert costs.bought(conn, 0, 2 * ADMITTED_US) == {
            ("outside", "external:outside/KEY_A"): 4 * 44
        }
        assert laws.bought_recomputes(conn).outcome is Outcome.HOLDS
    store.close()
