"""Invoice runs as jobs, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from billing.db.engine import Store
from billing.invoices import months, runs
from billing.invoices.run_keeper import REST_MAX_S, Pace
from billing.invoices.runs import RunProgress, RunState, UnknownRun, advance, start
from billing.periods import BadPeriod
from tests.billing.calls import opened_call
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
    holds,
)

RETRY_US = 10
ORGS = [f"org_{number}" for number in range(5)]


@pytest.fixture
def store(either_store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(runs, "ORGS_AT_ONCE", 2)
    return either_store


def step(store: Store, now_us: int = IN_NOVEMBER_US) -> bool:
    return advance(store, now_us=now_us, series="SLU", retry_after_us=RETRY_US)


def finished(store: Store, run: RunProgress, now_us: int = IN_NOVEMBER_US) -> RunProgress:
    while step(store, now_us):
        pass
    return runs.one(store, run.run_id)


def with_orgs(store: Store) -> None:
    book(store, *(call(store, f"req_{org}", IN_OCTOBER_US, org=org) for org in ORGS))
    caught_up(store, IN_NOVEMBER_US)


def test_run_shows_its_progress_and_ends_once(store: Store) -> None:
    with_orgs(store)
    run = start(store, "2026-10", now_us=IN_NOVEMBER_US)
    assert (run.state, run.done, run.total) == (RunState.QUEUED, 0, 0)
    progress = []
    while step(store):
        now = runs.one(store, run.run_id)
        progress.append((now.state, now.done, now.total))
    assert progress == [(RunState.RUNNING, 2, 5), (RunState.RUNNING, 4, 5), (RunState.DONE, 5, 5)]
    assert {each.invoice["status"] for each in months.list_invoices(store, now_us=0)} == {
        "finalised"
    }


def test_run_under_way_is_the_one_that_is_asked_for_again(store: Store) -> None:
    first = start(store, "2026-10", now_us=IN_NOVEMBER_US)
    again = start(store, "2026-10", now_us=IN_NOVEMBER_US + 1)
    other = start(store, "2026-10", now_us=IN_NOVEMBER_US, org="org_1")
    assert again == first and other.run_id != first.run_id
    finished(store, first)
    assert start(store, "2026-10", now_us=IN_NOVEMBER_US + 2).run_id != first.run_id
    assert len(runs.listed(store)) == 3


def test_run_of_an_ended_month_waits_for_open_calls_and_for_the_writer(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US), opened_call("req_2", admitted_us=9))
    run = finished(store, start(store, "2026-10", now_us=IN_NOVEMBER_US))
    assert (run.state, run.done, run.waiting) == (RunState.WAITING, 1, 1)
    caught_up(store, IN_NOVEMBER_US)
    run = finished(store, run, IN_NOVEMBER_US + RETRY_US)
    assert (run.state, run.waiting) == (RunState.WAITING, 1), "a call is open yet"
    book(store, call(store, "req_2", IN_OCTOBER_US))
    run = finished(store, run, IN_NOVEMBER_US + 2 * RETRY_US)
    assert (run.state, run.waiting) == (RunState.DONE, 0)
    assert holds(store)


def test_run_of_an_open_month_makes_drafts_and_is_done(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US))
    run = finished(store, start(store, "2026-10", now_us=IN_OCTOBER_US), IN_OCTOBER_US)
    (draft,) = months.list_invoices(store, now_us=IN_OCTOBER_US)
    assert (run.state, run.waiting, draft.invoice["status"]) == (RunState.DONE, 0, "draft")


def test_month_that_has_not_begun_or_is_none_is_refused(store: Store) -> None:
    for month in ("2026-12", "2026-13", "never"):
        with pytest.raises(BadPeriod):
            start(store, month, now_us=IN_NOVEMBER_US)
    with pytest.raises(UnknownRun):
        runs.one(store, "irun_of_nobody")


def test_run_that_fails_says_so_and_another_may_follow(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_orgs(store)
    first = start(store, "2026-10", now_us=IN_NOVEMBER_US)

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("a price is missing")

    with monkeypatch.context() as patched:
        patched.setattr(runs, "run_invoices", broken)
        ended = finished(store, first)
    assert (ended.state, ended.problem) == (RunState.FAILED, "ValueError: a price is missing")
    again = start(store, "2026-10", now_us=IN_NOVEMBER_US + 1)
    assert finished(store, again).state is RunState.DONE


def test_run_that_comes_again_asks_for_all_that_have_nothing_new_together(store: Store) -> None:
    def statements(run: RunProgress, now_us: int) -> int:
        asked = 0

        def count(*_: Any) -> None:
            nonlocal asked
            asked += 1

        event.listen(store.engine, "before_cursor_execute", count)
        ended = finished(store, run, now_us)
        event.remove(store.engine, "before_cursor_execute", count)
        assert (ended.done, ended.total) == (len(ORGS), len(ORGS))
        return asked

    book(store, *(call(store, f"req_{org}", IN_OCTOBER_US, org=org) for org in ORGS))
    run = start(store, "2026-10", now_us=IN_NOVEMBER_US)
    of_all = statements(run, IN_NOVEMBER_US)
    none_new = statements(run, IN_NOVEMBER_US + RETRY_US)
    assert none_new < of_all / 3
    assert runs.one(store, run.run_id).waiting == len(ORGS)
    book(store, call(store, "req_more", IN_OCTOBER_US, org="org_3"))
    one_new = statements(run, IN_NOVEMBER_US + 2 * RETRY_US)
    assert none_new < one_new < of_all
    caught_up(store, IN_NOVEMBER_US)
    statements(run, IN_NOVEMBER_US + 3 * RETRY_US)
    again = start(store, "2026-10", now_us=IN_NOVEMBER_US + 3 * RETRY_US)
    assert statements(again, IN_NOVEMBER_US + 3 * RETRY_US) <= none_new
    assert runs.one(store, again.run_id).state is RunState.DONE
    assert holds(store)


def test_run_rests_after_each_invoice_as_long_as_it_took(store: Store) -> None:
    with_orgs(store)
    start(store, "2026-10", now_us=IN_NOVEMBER_US)
    worked_s = [0.25, 0.5, REST_MAX_S, 8.0, 0.0]
    ticks = iter([0.0, *(tick for each in worked_s for tick in (each, 0.0))])
    rests: list[float] = []
    pace = Pace(lambda: next(ticks), rests.append)
    asked: dict[str, Any] = {"now_us": IN_NOVEMBER_US, "series": "SLU", "retry_after_us": RETRY_US}
    while advance(store, **asked, rest=pace.rest):
        pass
    assert rests == [0.25, 0.5, REST_MAX_S, REST_MAX_S, 0.0]


def test_draft_waits_for_no_disk_and_a_final_invoice_does(store: Store) -> None:
    """A run after a power cut makes a draft again. A number that was given out stays."""
    is_sqlite = store.engine.dialect.name == "sqlite"
    setting = "PRAGMA synchronous" if is_sqlite else "SHOW synchronous_commit"
    with store.write() as conn:
        waits = conn.exec_driver_sql(setting).scalar_one()
    seen: list[Any] = []

    def look(conn: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("INSERT INTO invoice ", "UPDATE invoice ")):
            driver: Any = conn.connection.driver_connection
            seen.append(driver.execute(setting).fetchone()[0])

    event.listen(store.engine, "before_cursor_execute", look)
    book(store, call(store, "req_1", IN_OCTOBER_US))
    months.run_invoices(store, "2026-10", now_us=IN_NOVEMBER_US, series="SLU")
    caught_up(store, IN_NOVEMBER_US)
    months.run_invoices(store, "2026-10", now_us=IN_NOVEMBER_US, series="SLU")
    assert seen == [1 if is_sqlite else "off", waits]
    with store.write() as conn:
        assert conn.exec_driver_sql(setting).scalar_one() == waits


def test_runs_at_once_make_each_invoice_once(store: Store) -> None:
    with_orgs(store)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: invoices_of(store), range(4)))
    assert all(each == made[0] for each in made)
    assert sorted(org for org, _ in made[0]) == ORGS
    assert sorted(number for _, number in made[0]) == list(range(1, len(ORGS) + 1))
    assert holds(store)


def invoices_of(store: Store) -> list[tuple[str, int]]:
    """Once a run has made them."""
    results = months.run_invoices(store, "2026-10", now_us=IN_NOVEMBER_US, series="SLU")
    return [(each.invoice["org"], each.invoice["number"]) for each in results]


class Killed(BaseException):
    """What ends the process between two statements, as a kill would."""


def test_run_killed_at_any_statement_goes_on_where_it_was(store: Store) -> None:
    with_orgs(store)
    run = start(store, "2026-10", now_us=IN_NOVEMBER_US)
    left = 0

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    event.listen(store.engine, "before_cursor_execute", count)
    kills, statement = 0, 0
    while True:
        statement += 1
        left = statement
        try:
            if not step(store):
                break
        except Killed:
            kills += 1
    event.remove(store.engine, "before_cursor_execute", count)
    ended = runs.one(store, run.run_id)
    assert kills > 20 and (ended.state, ended.done) == (RunState.DONE, len(ORGS))
    with store.read() as conn:
        numbers = conn.execute(text("SELECT org, number FROM invoice ORDER BY 2")).all()
    assert sorted(org for org, _ in numbers) == ORGS
    assert [number for _, number in numbers] == list(range(1, len(ORGS) + 1))
    assert holds(store)
