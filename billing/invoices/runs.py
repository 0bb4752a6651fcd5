"""Invoice runs as jobs: asked for once, carried out beside the writer, resumed after a kill.

A run goes through the organizations of its month in their order, a few at a time, and keeps where
it is. Those that have nothing new are passed over together. Each invoice is a transaction of its
own and may be repeated, so a kill at any statement costs a few organizations' work at most. A month
that has ended waits until each of its invoices is final: for the writer's mark, and for calls that
are still open.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, and_, func, select, tuple_, update

from billing.charges.store import MONTH as CHARGED
from billing.db.columns import table_of
from billing.db.engine import OUTAGE, Store
from billing.db.in_list import in_list
from billing.db.insert import insert_new
from billing.invoices import agreed
from billing.invoices import store as rows
from billing.invoices.guards import GUARDS, Guards
from billing.invoices.months import RunTerms, open_for_all, run_invoices
from billing.invoices.store import CUT, INVOICE, VOID
from billing.invoices.tables import InvoiceRun
from billing.periods import BadPeriod, Period, period
from billing.terms.store import TERMS

RUN = table_of(InvoiceRun)
ORGS_AT_ONCE = 20
PASSED_AT_ONCE = 1000
"""Of which a step asks at most whether they have anything new."""
PROBLEM_CHARS_MAX = 500


class RunState(StrEnum):
    """`waiting`: the month has ended, and some invoices cannot be final yet."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


UNFINISHED = ("queued", "running", "waiting")


class UnknownRun(LookupError):
    """There is no run of this id."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is: `done` of `total` organizations. `waiting` of them have invoices that
    cannot be final yet."""

    run_id: str
    period: str
    org: str
    state: RunState
    after_org: str
    done: int
    total: int
    waiting: int
    problem: str
    created_us: int
    changed_us: int


def start(store: Store, month: str, *, now_us: int, org: str = "") -> RunProgress:
    """The unfinished run of a month and an organization (or all), a new one if there is none.
    Raises BadPeriod, also for a month that has not begun."""
    if period(month).start_us > now_us:
        raise BadPeriod(f"{month} has not begun")
    run_id = f"irun_{sha256(f'{month} {org} {now_us}'.encode()).hexdigest()[:24]}"
    row = {
        **{"run_id": run_id, "period": month, "org": org, "state": RunState.QUEUED.value},
        **{"after_org": "", "done": 0, "total": 0, "waiting": 0, "problem": ""},
        **{"created_us": now_us, "changed_us": now_us},
    }
    unfinished = select(RUN).where(
        RUN.c.period == month, RUN.c.org == org, RUN.c.state.in_(UNFINISHED)
    )
    with store.write() as conn:
        insert_new(conn, RUN, [row])
        found = conn.execute(unfinished).mappings().first()
        return _progress(found) if found else _one(conn, run_id)


def one(store: Store, run_id: str) -> RunProgress:
    """Raises UnknownRun."""
    with store.read() as conn:
        return _one(conn, run_id)


def listed(
    store: Store, *, after: tuple[int, str] | None = None, limit: int | None = None
) -> list[RunProgress]:
    """The oldest first, from the one behind an instant and an id."""
    statement = select(RUN).order_by(RUN.c.created_us, RUN.c.run_id).limit(limit)
    if after is not None:
        statement = statement.where(tuple_(RUN.c.created_us, RUN.c.run_id) > after)
    with store.read() as conn:
        return [_progress(row) for row in conn.execute(statement).mappings()]


def advance(
    store: Store,
    *,
    now_us: int,
    series: str,
    retry_after_us: int,
    grace_us: int = 0,
    guards: Guards = GUARDS,
    rest: Callable[[], None] = lambda: None,
) -> bool:
    """Take the oldest run that is due a step further, with a `rest` after each invoice. False if
    none is due. A run that waits is due again `retry_after_us` after its last pass, and not before
    the grace period of its month ends. Raises what an outage of SQL raises; any other failure ends
    the run, which says it."""
    with store.read() as conn:
        run = _due(conn, now_us, retry_after_us, grace_us)
    if run is None:
        return False
    try:
        _step(store, run, RunTerms(now_us, series, grace_us, guards), rest)
    except OUTAGE:
        raise
    except Exception as error:  # whatever it is, the run must end and say so
        problem = f"{type(error).__name__}: {error}"[:PROBLEM_CHARS_MAX]
        _change(store, run, state=RunState.FAILED.value, problem=problem, changed_us=now_us)
    return True


def _step(store: Store, run: RunProgress, terms: RunTerms, rest: Callable[[], None]) -> None:
    month = period(run.period)
    is_new_pass = run.state is not RunState.RUNNING
    after_org, done, waiting = ("", 0, 0) if is_new_pass else (run.after_org, run.done, run.waiting)
    with store.read() as conn:
        orgs = [run.org] if run.org else agreed.orgs(conn, month)
        nexts = [org for org in orgs if org > after_org][:PASSED_AT_ONCE]
        passed = unchanged(conn, nexts, month, terms.now_us, terms.grace_us)
    part = _part(nexts, passed)
    for org in part:
        if org in passed:
            waiting += passed[org]
        else:
            waiting += _waits(store, org, month, terms)
            rest()
    counts = {"done": done + len(part), "total": len(orgs), "waiting": waiting}
    is_last = not part or part[-1] == orgs[-1]
    state = RunState.RUNNING if not is_last else RunState.WAITING if waiting else RunState.DONE
    place = part[-1] if part else after_org
    _change(store, run, state=state.value, after_org=place, changed_us=terms.now_us, **counts)


def unchanged(
    conn: Connection, orgs: Sequence[str], month: Period, now_us: int, grace_us: int
) -> dict[str, bool]:
    """Organizations of which a run would write nothing, and whether it would have to come again. A
    run looks at others one by one."""
    kept = dict.fromkeys(_final(conn, orgs, month), False)
    if any(open_for_all(conn, month, now_us, grace_us)):
        has_ended = month.end_us <= now_us
        kept |= dict.fromkeys(_drafted(conn, orgs, month), has_ended)
    return kept


def _final(conn: Connection, orgs: Sequence[str], month: Period) -> list[str]:
    """Those whose invoice of the month is final and counts."""
    statement = select(INVOICE.c.org).where(
        *(in_list(conn, INVOICE.c.org, orgs), INVOICE.c.period == month.name),
        *(INVOICE.c.kind == rows.MONTH, INVOICE.c.status == "finalised", ~rows.IS_VOID),
    )
    return list(conn.execute(statement).scalars())


def _drafted(conn: Connection, orgs: Sequence[str], month: Period) -> list[str]:
    """Those that have a draft of the month, and no charge which is on no invoice. Terms and void
    invoices move charges in other ways, so whoever has any is left out."""
    of_cut = INVOICE.alias("of_cut")
    of_void = INVOICE.alias("of_void")
    billed = (
        select(func.max(CUT.c.upto_us))
        .join(of_cut, of_cut.c.invoice_id == CUT.c.invoice_id)
        .where(of_cut.c.org == CHARGED.c.org)
        .where(CUT.c.service_start_us == CHARGED.c.service_start_us)
        .scalar_subquery()
    )
    is_new = and_(
        CHARGED.c.org == INVOICE.c.org,
        CHARGED.c.service_start_us < month.end_us,
        CHARGED.c.moved_us > func.coalesce(billed, 0),
    )
    has_void = select(VOID.c.invoice_id).join(of_void, of_void.c.invoice_id == VOID.c.invoice_id)
    statement = select(INVOICE.c.org).where(
        *(in_list(conn, INVOICE.c.org, orgs), INVOICE.c.period == month.name),
        *(INVOICE.c.kind == rows.MONTH, INVOICE.c.status == "draft"),
        ~select(CHARGED.c.org).where(is_new).exists(),
        ~select(TERMS.c.org).where(TERMS.c.org == INVOICE.c.org).exists(),
        ~has_void.where(of_void.c.org == INVOICE.c.org).exists(),
    )
    return list(conn.execute(statement).scalars())


def _part(orgs: Sequence[str], passed: Container[str]) -> list[str]:
    """The first organizations, of which a few have something new."""
    changed = [place for place, org in enumerate(orgs) if org not in passed]
    return list(orgs if len(changed) <= ORGS_AT_ONCE else orgs[: changed[ORGS_AT_ONCE]])


def _waits(store: Store, org: str, month: Period, terms: RunTerms) -> bool:
    """Write the invoice of an organization. True if its month has ended and it is a draft yet, for
    more than what a person must clear."""
    results = run_invoices(store, month.name, org=org, **terms._asdict())
    return month.end_us <= terms.now_us and any(
        set(result.draft_because) - set(result.parked_because) for result in results
    )


def _change(store: Store, run: RunProgress, **values: Any) -> None:
    """Note how far a run is, unless another process has taken it further meanwhile."""
    unchanged = (
        *(RUN.c.run_id == run.run_id, RUN.c.state == run.state.value),
        *(RUN.c.after_org == run.after_org, RUN.c.changed_us == run.changed_us),
    )
    with store.write() as conn:
        conn.execute(update(RUN).where(*unchanged).values(**values))


def _due(conn: Connection, now_us: int, retry_after_us: int, grace_us: int) -> RunProgress | None:
    waited = (RUN.c.state == "waiting") & (RUN.c.changed_us <= now_us - retry_after_us)
    is_due = RUN.c.state.in_(("queued", "running")) | waited
    oldest = select(RUN).where(is_due).order_by(RUN.c.created_us, RUN.c.run_id)
    for row in conn.execute(oldest).mappings():
        run = _progress(row)
        if run.state is not RunState.WAITING or now_us >= period(run.period).end_us + grace_us:
            return run
    return None


def _one(conn: Connection, run_id: str) -> RunProgress:
    row = conn.execute(select(RUN).where(RUN.c.run_id == run_id)).mappings().first()
    if row is None:
        raise UnknownRun(run_id)
    return _progress(row)


def _progress(row: Any) -> RunProgress:
    values = dict(row)
    return RunProgress(**{**values, "state": RunState(values["state"])})
