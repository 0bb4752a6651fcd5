"""A ledger that anything may happen to, in any order, beside a model that says what it must hold.

Calls are opened and end, once or several times; their records are delivered in batches of any size
and order, again and again, or in a transaction that is never committed; prices change, grants are
given, voided and end, months pass, invoices are run and their runs break off. After every step the
rows are compared with the model, each law by itself: I1 to I5, I7 to I10 and I15 of the reference.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import event

from billing.credits.credit import Category, Grant
from billing.credits.grants import book_ends, give, void
from billing.db.engine import Store, open_store
from billing.invoices.months import run_invoices
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.limits.keys import SHARDS
from billing.prices.book import Component, PriceRate
from billing.prices.versions import load_book, put_into_force
from billing.types import Attempt, BudgetShare, OpenedCall, SettledCall, UsageSource, encode
from billing.writer import marks
from migrations.run import migrate
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.chaos.auditor import Auditor, Books, Client, days_differ, hours_differ, sums_differ
from tests.laws.examples import examples
from tests.laws.ledger_model import HOUR_US, Given, Model, Said

ORGS = ("org_0", "org_1")
MODELS = ("tale-large", "tale-small")
DAY_US = 24 * HOUR_US
BUDGETS = ("bud_0", None)
SECOND_US = 1_000_000
NANOUSD_PER_S = 2_777_777
PARTS = (Component.INPUT, Component.CACHED_INPUT, Component.OUTPUT, Component.REQUEST)

prices = st.integers(0, 3_000_000_001)
tokens = st.tuples(st.integers(0, 900), st.integers(0, 50), st.integers(0, 900))


class _Broken(Exception):
    """What breaks a transaction off."""


class Ledgers:
    """One file that every example begins anew: an engine of its own each would compile every
    statement again."""

    def __init__(self, folder: Path) -> None:
        self.empty = folder / "empty.db"
        self.path = folder / "ledger.db"
        migrate(f"sqlite:///{self.empty}")
        self.store: Store = open_store(f"sqlite:///{self.path}")
        event.listen(self.store.engine, "connect", _without_fsync)

    def fresh(self) -> Store:
        self.store.engine.dispose()
        for left in self.path.parent.glob("ledger.db*"):
            left.unlink()
        shutil.copy(self.empty, self.path)
        return self.store


@pytest.fixture(scope="module")
def ledgers() -> Iterator[Ledgers]:
    with tempfile.TemporaryDirectory() as folder:
        made = Ledgers(Path(folder))
        yield made
        made.store.close()


class LedgerMachine(RuleBasedStateMachine):
    ledgers: Ledgers

    def __init__(self) -> None:
        super().__init__()
        self.store = self.ledgers.fresh()
        self.auditor = Auditor(f"sqlite:///{self.ledgers.path}", Client(0))
        self.model = Model()
        self.now_us = ADMITTED_US
        self.version = ""
        self.versions = 0
        self.entries = 0
        self.opened: dict[str, OpenedCall] = {}
        self.waiting: list[Record] = []
        self.heard: list[Record] = []
        self.said: dict[bytes, Said] = {}

    # --- prices and time -------------------------------------------------------------------------

    @initialize(found=st.tuples(*[prices] * 8))
    def first_prices(self, found: tuple[int, ...]) -> None:
        self._price(found)

    @rule(found=st.tuples(*[prices] * 8))
    def other_prices(self, found: tuple[int, ...]) -> None:
        self.now_us += SECOND_US
        self._price(found)

    def _price(self, found: Sequence[int]) -> None:
        self.versions += 1
        self.version = f"pv_{self.versions}"
        cells = [(model, component) for model in MODELS for component in PARTS]
        rates = [
            PriceRate(model=model, tier="default", component=component, nanousd_per_mtok=price)
            for (model, component), price in zip(cells, found, strict=True)
        ]
        put_into_force(
            self.store,
            rates,
            by="test",
            now_us=self.now_us,
            effective_from_us=self.now_us,
            version_id=self.version,
        )
        for (model, component), price in zip(cells, found, strict=True):
            self.model.prices[self.version, model, component.value] = price

    @rule(us=st.sampled_from([1, SECOND_US, HOUR_US, DAY_US, 20 * DAY_US]))
    def time_passes(self, us: int) -> None:
        self.now_us += us

    # --- calls -----------------------------------------------------------------------------------

    @rule(org=st.sampled_from(ORGS), model=st.sampled_from(MODELS), budget=st.sampled_from(BUDGETS))
    def call_is_opened(self, org: str, model: str, budget: str | None) -> None:
        rid = f"req_{len(self.opened)}"
        opened = opened_call(
            rid,
            org=org,
            project=f"proj_{org}",
            key=f"key_{org}",
            model=model,
            price_version=self.version,
            admitted_us=self.now_us,
            scopes=[f"key:key_{org}", f"project:proj_{org}", f"org:{org}"],
            budgets=[BudgetShare(budget=budget)] if budget else [],
        )
        self.opened[rid] = opened
        self._send("reserved", rid, encode(opened))

    @precondition(lambda self: self.opened)
    @rule(data=st.data(), used=tokens, exact=st.booleans(), later_us=st.integers(0, 3 * HOUR_US))
    def call_ends(
        self, data: st.DataObject, used: tuple[int, int, int], exact: bool, later_us: int
    ) -> None:
        """Maybe once more, and otherwise: estimated, and later as it was."""
        opened = self.opened[data.draw(st.sampled_from(sorted(self.opened)))]
        wasted_us = data.draw(st.sampled_from([0, 1_234_567]))
        said = Said(
            rid=opened.rid,
            org=opened.org,
            model=opened.model,
            version=opened.price_version,
            exact=exact,
            tokens=used,
            admitted_us=opened.admitted_us,
            ended_us=min(opened.admitted_us + later_us, self.now_us),
            served_nanousd=_time(2_000_003) if any(used) else 0,
            wasted_nanousd=_time(wasted_us) + (0 if any(used) else _time(2_000_003)),
            budget=opened.budgets[0].budget if opened.budgets else None,
        )
        call = self._settled(opened, said, wasted_us)
        self.said[encode(call)] = said
        self._send("settled", opened.rid, encode(call))

    def _settled(self, opened: OpenedCall, said: Said, wasted_us: int) -> SettledCall:
        tries = [_try("r0", wasted_us, 0), _try("r1", 2_000_003, 1 if any(said.tokens) else 0)]
        return settled_call(
            opened,
            self.model.cost(said),
            source=UsageSource.EXACT if said.exact else UsageSource.ESTIMATED,
            input=said.tokens[0],
            cached_input=said.tokens[1],
            output=said.tokens[2],
            ended_us=said.ended_us,
            attempts=tries if wasted_us else tries[1:],
            budgets=opened.budgets,
        )

    def _send(self, kind: str, rid: str, payload: bytes) -> None:
        self.entries += 1
        self.waiting.append(Record(0, f"{self.entries}-0", kind, rid, payload))

    # --- deliveries ------------------------------------------------------------------------------

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), again=st.booleans())
    def batch_is_booked(self, data: st.DataObject, again: bool) -> None:
        """Some of what waits, in any order, maybe with what was booked before."""
        batch = self._batch(data, again)
        self._book(batch)
        self.waiting = [record for record in self.waiting if record not in batch]
        self.heard += batch

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def batch_breaks_off(self, data: st.DataObject) -> None:
        """Killed before it was committed: it has not happened."""
        batch = self._batch(data, again=True)
        with pytest.raises(_Broken), self.store.write() as conn:
            booking.book(conn, booking.read(batch, load_book(self.store), self.now_us))
            raise _Broken

    @precondition(lambda self: self.heard)
    @rule()
    def everything_is_delivered_again(self) -> None:
        """I8: to the byte."""
        before = self.auditor.read().digest
        again = [*self.heard, *self.heard[:3]]
        with self.store.write() as conn:
            booked = booking.book(conn, booking.read(again, load_book(self.store), self.now_us))
        assert not booked.failures
        assert (booked.events, booked.corrections) == (0, 0)
        assert self.auditor.read().digest == before
        for record in again:
            self._hear(record)

    def _batch(self, data: st.DataObject, again: bool) -> list[Record]:
        size = data.draw(st.integers(1, len(self.waiting)))
        batch = data.draw(st.permutations(self.waiting))[:size]
        if again and self.heard:
            batch += data.draw(st.lists(st.sampled_from(self.heard), max_size=3))
        return batch

    def _book(self, batch: Sequence[Record]) -> None:
        with self.store.write() as conn:
            booked = booking.book(conn, booking.read(batch, load_book(self.store), self.now_us))
        assert not booked.failures
        for record in batch:
            self._hear(record)

    def _hear(self, record: Record) -> None:
        if record.kind == "reserved":
            self.model.hear_opened(record.rid)
        else:
            self.model.hear(self.said[record.payload])

    # --- credits ---------------------------------------------------------------------------------

    @rule(
        org=st.sampled_from(ORGS),
        paid=st.booleans(),
        amount=st.integers(1, 4_000_000),
        priority=st.sampled_from([10, 50]),
        lasts_us=st.none() | st.sampled_from([SECOND_US, HOUR_US, 20 * DAY_US]),
        models=st.sampled_from([(), ("tale-large",)]),
    )
    def grant_is_given(
        self,
        org: str,
        paid: bool,
        amount: int,
        priority: int,
        lasts_us: int | None,
        models: tuple[str, ...],
    ) -> None:
        name = f"g{len(self.model.grants)}"
        given = Given(
            name=name,
            org=org,
            paid=paid,
            amount=amount,
            priority=priority,
            from_us=self.now_us,
            expires_us=None if lasts_us is None else self.now_us + lasts_us,
            models=models,
            created_us=self.now_us,
        )
        grant = Grant(
            grant_id=name,
            org=org,
            category=Category.PAID if paid else Category.PROMOTIONAL,
            amount_nanousd=amount,
            effective_us=given.from_us,
            created_us=given.created_us,
            priority=priority,
            expires_us=given.expires_us,
            models=models,
        )
        for _ in range(2):  # whoever asks twice has one
            give(self.store, grant, created_by="test", now_us=self.now_us)
        self.model.grants[name] = given
        self.model.left[name] = amount

    @precondition(lambda self: any(self._may_be_voided()))
    @rule(data=st.data())
    def grant_is_voided(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._may_be_voided()))
        given = void(self.store, name, voided_by="test", now_us=self.now_us)
        assert given.grant.voided_us is not None
        self.model.voided_us[name] = given.grant.voided_us

    def _may_be_voided(self) -> list[str]:
        return [
            name
            for name, grant in self.model.grants.items()
            if name not in self.model.voided_us
            and (grant.expires_us is None or grant.expires_us > self.now_us + DAY_US)
        ]

    @precondition(lambda self: self.model.grants)
    @rule()
    def grants_end(self) -> None:
        """What is left of those that no call may use any more is booked away, once."""
        with self.store.write() as conn:
            marks.caught_up(conn, SHARDS, self.now_us)
        before = self._left()
        book_ends(self.store, self.now_us)
        after = self._left()
        assert book_ends(self.store, self.now_us) == 0
        for name, grant in self.model.grants.items():
            if after[name] != before[name]:
                assert after[name] == 0
                assert self.model.ends_us(grant) < self.now_us
                for rid in self.model.still_open:
                    opened = self.opened[rid]
                    may_use = opened.org == grant.org
                    assert not may_use or opened.admitted_us >= self.model.ends_us(grant)
                self.model.left[name] = 0

    def _left(self) -> dict[str, int]:
        accounts = self.auditor.read().accounts
        return {
            name: _balance(accounts, f"org:{grant.org}:grant:{name}")
            for name, grant in self.model.grants.items()
        }

    # --- invoices --------------------------------------------------------------------------------

    @rule(months_ago=st.integers(0, 2), breaks_at=st.none() | st.integers(1, 40))
    def invoices_are_run(self, months_ago: int, breaks_at: int | None) -> None:
        """A run that breaks off at any statement leaves each invoice as it was, or whole."""
        month = _month_before(self.now_us, months_ago)
        with self.store.write() as conn:
            marks.caught_up(conn, SHARDS, self.now_us)
        statements = iter(range(1, 10**6))

        def count(*_: Any) -> None:
            if next(statements) == breaks_at:
                raise _Broken

        event.listen(self.store.engine, "before_cursor_execute", count)
        try:
            run_invoices(self.store, month, now_us=self.now_us, series="SLU")
        except _Broken:
            pass
        finally:
            event.remove(self.store.engine, "before_cursor_execute", count)

    # --- laws ------------------------------------------------------------------------------------

    @invariant()
    def every_law_holds(self) -> None:
        books = self.auditor.read()
        found = [*sums_differ(books), *hours_differ(books), *days_differ(books)]
        assert not found, found
        self._calls(books)
        self._credits(books)
        self._costs(books)
        self._budgets()
        self._invoices(books)

    def _calls(self, books: Books) -> None:
        """I3, I4, I15, and that a hold is open as long as its call is."""
        model = self.model
        assert set(books.events) == set(model.best)
        assert set(books.open_holds) == model.still_open
        assert Counter(reason for _, reason in books.letters)["conflict"] <= model.conflicts
        assert all(reason == "conflict" for _, reason in books.letters)
        standing = _standing_charges(books)
        for rid, said in model.best.items():
            best = books.best(rid)
            assert best is not None
            amount = model.cost(said)
            used = (best["input"], best["cached_input"], best["output"])
            assert (used, best["amount_nanousd"]) == (said.tokens, amount)
            assert best["source"] == ("exact" if said.exact else "estimated")
            assert books.events[rid]["ended_us"] == model.first_us[rid]
            assert standing.get(rid, []) == ([amount] if amount else [])

    def _credits(self, books: Books) -> None:
        """I7: the order is the model's, and no grant pays more than it has."""
        for name, grant in self.model.grants.items():
            left = _balance(books.accounts, f"org:{grant.org}:grant:{name}")
            assert left == self.model.left[name] >= 0, name
        for org in ORGS:
            owed = _balance(books.accounts, f"org:{org}:unbilled") * -1
            receivable = sum(
                int(row["amount_nanousd"])
                * (1 if row["debit_account"].endswith("receivable") else -1)
                for row in books.transfers
                if row["kind"] == "invoice" and row["org"] == org
            )
            assert owed + receivable == self.model.charged(org) - self.model.burned_of(org)

    def _costs(self, books: Books) -> None:
        served = sum(said.served_nanousd for said in self.model.best.values())
        wasted = sum(said.wasted_nanousd for said in self.model.best.values())
        assert -_balance(books.accounts, "cogs:pool:large-reserved") == served
        assert -_balance(books.accounts, "unallocated:pool:large-reserved:wasted") == wasted

    def _budgets(self) -> None:
        with self.store.read() as conn:
            rows = conn.exec_driver_sql("SELECT budget_id, amount_nanousd FROM budget_spent").all()
        for name, amount in rows:
            assert amount == self.model.counted(name)

    def _invoices(self, books: Books) -> None:
        """I5 and I10."""
        with self.store.read() as conn:
            run = conn.exec_driver_sql
            lines = run(
                "SELECT invoice_id, sum(amount_nanousd) FROM invoice_line GROUP BY invoice_id"
            ).all()
            totals = run(
                "SELECT invoice_id, subtotal_nanousd, rounding_nanousd, total_cents, number, series"
                " FROM invoice"
            ).all()
            cuts = run(
                "SELECT org, service_start_us, after_us, upto_us FROM invoice_cut"
                " JOIN invoice USING (invoice_id) ORDER BY 1, 2, 3"
            ).all()
        for (*month, _, upto_us), (*later_month, after_us, _) in pairwise(cuts):
            assert month != later_month or upto_us <= after_us, "a charge is on one invoice"
        of_lines = dict(map(tuple, lines))
        numbers: dict[str, list[int]] = {}
        for invoice, subtotal, rounding, cents, number, series in totals:
            assert of_lines.get(invoice, 0) == subtotal + rounding == cents * 10_000_000
            if number is not None:
                numbers.setdefault(series, []).append(number)
        for found in numbers.values():
            assert sorted(found) == list(range(1, len(found) + 1))


def _standing_charges(books: Books) -> dict[str, list[int]]:
    """Of each call the charges that were not reversed."""
    reversed_ones = {row["reverses_id"] for row in books.transfers if row["reverses_id"]}
    found: dict[str, list[int]] = {}
    for row in books.transfers:
        if row["kind"] == "charge" and row["transfer_id"] not in reversed_ones:
            found.setdefault(row["rid"], []).append(int(row["amount_nanousd"]))
    return found


def _balance(accounts: dict[str, tuple[int, int]], code: str) -> int:
    debits, credits = accounts.get(code, (0, 0))
    return credits - debits


def _sign(is_positive: bool) -> int:
    return 1 if is_positive else -1


def _time(busy_us: int) -> int:
    return busy_us * NANOUSD_PER_S // SECOND_US


def _try(replica: str, busy_us: int, output: int) -> Attempt:
    return Attempt(
        pool="large-reserved",
        replica=replica,
        started_us=ADMITTED_US,
        ended_us=ADMITTED_US + busy_us,
        outcome="done",
        output=output,
        busy_us=busy_us,
        nanousd_per_s=NANOUSD_PER_S,
    )


def _month_before(now_us: int, months: int) -> str:
    from datetime import UTC, datetime

    now = datetime.fromtimestamp(now_us / 1e6, UTC)
    place = now.year * 12 + now.month - 1 - months
    return f"{place // 12:04d}-{place % 12 + 1:02d}"


def _without_fsync(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous = OFF")


def _run(ledgers: Ledgers, runs: int, steps: int) -> None:
    LedgerMachine.ledgers = ledgers
    case = LedgerMachine.TestCase
    case.settings = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    case("runTest").runTest()


def test_ledger_agrees_with_the_model_after_every_step(ledgers: Ledgers) -> None:
    _run(ledgers, examples(60), steps=30)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ledger_agrees_with_the_model_in_the_long_run(ledgers: Ledgers) -> None:
    _run(ledgers, runs=500, steps=60)
