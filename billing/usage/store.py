"""Statements on usage events, their corrections, and the explanation of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Subquery,
    delete,
    func,
    select,
    union_all,
)

from billing.costs.tables import WAS_MOVED, AttemptRow
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import Row, insert_rows
from billing.ledger.posting import LatestRecord
from billing.types import TOKEN_CLASSES, UsageSource
from billing.usage.tables import CallRecordRow, UsageColumns, UsageCorrection, UsageEvent

EVENT = table_of(UsageEvent)
CORRECTION = table_of(UsageCorrection)
CALL = table_of(CallRecordRow)
ATTEMPT = table_of(AttemptRow)

USAGE_COLUMNS = tuple(UsageColumns.model_fields)


class CallFilter(NamedTuple):
    """Calls of an organization whose event ended in [from, to), and whose best record is of a
    model. What is None is left open."""

    org: str | None = None
    from_us: int | None = None
    to_us: int | None = None
    model: str | None = None


EVERY_CALL = CallFilter()


def latest(conn: Connection, rids: Sequence[str]) -> dict[str, LatestRecord]:
    """The latest records of these request ids. An unknown id is absent."""
    columns = ("rid", "source", "payload_sha", *TOKEN_CLASSES)
    rows = conn.execute(
        select(*(EVENT.c[name] for name in columns), EVENT.c.amount_nanousd).where(
            in_list(conn, EVENT.c.rid, rids)
        )
    ).all()
    by_rid = {row[0]: _known(1, row[1:]) for row in rows}
    if not by_rid:
        return by_rid
    corrections = conn.execute(
        select(
            *(CORRECTION.c[name] for name in columns), CORRECTION.c.amount_nanousd, CORRECTION.c.n
        )
        .where(in_list(conn, CORRECTION.c.rid, list(by_rid)))
        .order_by(CORRECTION.c.n)
    )
    for row in corrections:
        by_rid[row[0]] = _known(row[-1], row[1:-1])
    return by_rid


def _known(n: int, row: Sequence[Any]) -> LatestRecord:
    source, sha, *tokens, amount = row
    assert isinstance(sha, bytes)
    return LatestRecord(n, UsageSource(source), sha, sum(tokens), amount)


def insert_events(conn: Connection, rows: Sequence[Row]) -> None:
    insert_rows(conn, EVENT, rows)


def insert_corrections(conn: Connection, rows: Sequence[Row]) -> None:
    insert_rows(conn, CORRECTION, rows)


def replace_explanations(
    conn: Connection, calls: Sequence[Row], attempts: Sequence[Row], corrected: Sequence[str]
) -> None:
    """Keep the decision and the attempts of the newest record. Older ones are deleted."""
    if corrected:
        for table in (ATTEMPT, CALL):
            conn.execute(delete(table).where(table.c.rid.in_(corrected)))
    insert_rows(conn, CALL, calls)
    insert_rows(conn, ATTEMPT, attempts)


def current() -> Subquery:
    """One row per request id: its event, or the latest correction of it."""
    newest = select(CORRECTION.c.rid, func.max(CORRECTION.c.n).label("n"))
    last = newest.group_by(CORRECTION.c.rid).subquery()
    corrected = select(*(CORRECTION.c[name] for name in USAGE_COLUMNS)).join(
        last, (last.c.rid == CORRECTION.c.rid) & (last.c.n == CORRECTION.c.n)
    )
    untouched = select(*(EVENT.c[name] for name in USAGE_COLUMNS)).where(
        ~select(CORRECTION.c.rid).where(CORRECTION.c.rid == EVENT.c.rid).exists()
    )
    return union_all(untouched, corrected).subquery("usage")


def records_of(conn: Connection, rid: str) -> list[dict[str, Any]]:
    """All records of one request id, in the order in which they were booked. None of an unknown
    id."""
    event = conn.execute(select(EVENT).where(EVENT.c.rid == rid)).mappings().first()
    if event is None:
        return []
    better = select(CORRECTION).where(CORRECTION.c.rid == rid).order_by(CORRECTION.c.n)
    return [dict(event), *map(dict, conn.execute(better).mappings())]


def newest(
    conn: Connection, limit: int, only: CallFilter, before: tuple[int, str] | None = None
) -> list[tuple[int, dict[str, Any]]]:
    """The newest calls by the end of their event, each with that end and by its best record.
    `before` is the end and the request id of the call that precedes them."""
    events = select(EVENT).order_by(EVENT.c.ended_us.desc(), EVENT.c.rid.desc())
    calls = events.where(*_conditions(only, before)).limit(limit)
    return _best(conn, calls)


def _conditions(only: CallFilter, before: tuple[int, str] | None) -> Iterator[ColumnElement[bool]]:
    if only.org is not None:
        yield EVENT.c.org == only.org
    if only.from_us is not None:
        yield EVENT.c.ended_us >= only.from_us
    if only.to_us is not None:
        yield EVENT.c.ended_us < only.to_us
    if only.model is not None:
        better = select(CORRECTION.c.model).where(CORRECTION.c.rid == EVENT.c.rid)
        best = better.order_by(CORRECTION.c.n.desc()).limit(1).scalar_subquery()
        yield func.coalesce(best, EVENT.c.model) == only.model
    if before is not None:
        ended_us, rid = before
        yield EVENT.c.ended_us <= ended_us
        yield (EVENT.c.ended_us < ended_us) | (EVENT.c.rid < rid)


def _best(conn: Connection, events: Select[Any]) -> list[tuple[int, dict[str, Any]]]:
    """For each of these events, in their order: when it ended, and the best record of its call."""
    records = [dict(row) for row in conn.execute(events).mappings()]
    rids = [row["rid"] for row in records]
    better = (
        select(CORRECTION).where(in_list(conn, CORRECTION.c.rid, rids)).order_by(CORRECTION.c.n)
    )
    best = {row["rid"]: dict(row) for row in conn.execute(better).mappings()} if rids else {}
    return [(row["ended_us"], best.get(row["rid"], row)) for row in records]


def decisions_of(conn: Connection, rids: Sequence[str]) -> dict[str, str]:
    """The decisions of these request ids, as older releases kept them. Others are absent."""
    statement = select(CALL.c.rid, CALL.c.decision).where(CALL.c.rid.in_(rids))
    return {rid: decision for rid, decision in conn.execute(statement)}


def timings(
    conn: Connection, from_us: int, to_us: int, limit: int
) -> list[tuple[int, int, int | None, int]]:
    """(admitted, ended, first token, output tokens) of the newest `limit` answered calls that ended
    in [from, to), newest first. The values are those of the first record. Times are in us."""
    names = ("admitted_us", "ended_us", "first_token_us", "output")
    newest = (
        select(*(EVENT.c[name] for name in names))
        .where(EVENT.c.ended_us >= from_us, EVENT.c.ended_us < to_us)
        .where(EVENT.c.status == "answered")
        .order_by(EVENT.c.ended_us.desc())
        .limit(limit)
    )
    return [(row[0], row[1], row[2], row[3]) for row in conn.execute(newest)]


def moves(conn: Connection, from_us: int, to_us: int, limit: int) -> list[tuple[str, str, int]]:
    """(id, pool, when it was left) of the newest `limit` moved attempts that started in
    [from, to)."""
    newest = (
        select(ATTEMPT.c.rid, ATTEMPT.c.pool, ATTEMPT.c.ended_us)
        .where(ATTEMPT.c.started_us >= from_us, ATTEMPT.c.started_us < to_us)
        .where(WAS_MOVED)
        .order_by(ATTEMPT.c.started_us.desc())
        .limit(limit)
    )
    return [(row[0], row[1], row[2]) for row in conn.execute(newest)]


def of_canaries(
    conn: Connection, policy_revision: int, from_us: int, to_us: int, limit: int
) -> list[Sequence[Any]]:
    """(rule, whether the canary, status, admitted, first token, ended, amount, cost) of the newest
    `limit` calls that ended in [from, to) and went by rules with a canary. The values are those of
    the first record."""
    names = ("rule", "is_canary", "status", "admitted_us", "first_token_us", "ended_us")
    newest = (
        select(*(EVENT.c[name] for name in (*names, "amount_nanousd", "cost_nanousd")))
        .where(EVENT.c.policy_revision == policy_revision, EVENT.c.is_canary.is_not(None))
        .where(EVENT.c.ended_us >= from_us, EVENT.c.ended_us < to_us)
        .order_by(EVENT.c.ended_us.desc())
        .limit(limit)
    )
    return [tuple(row) for row in conn.execute(newest)]


def passed(conn: Connection, org: str | None, from_us: int, to_us: int, events: int) -> int | None:
    """The end of the event after so many in [from, to). It walks along an index, not through the
    log."""
    ended_us = EVENT.c.ended_us
    walk = select(ended_us).where(ended_us >= from_us, ended_us < to_us).order_by(ended_us)
    if org is not None:
        walk = walk.where(EVENT.c.org == org)
    return conn.execute(walk.offset(events).limit(1)).scalar_one_or_none()


def attempts_of(conn: Connection, rid: str) -> list[dict[str, Any]]:
    ordered = select(ATTEMPT).where(ATTEMPT.c.rid == rid).order_by(ATTEMPT.c.n)
    return [dict(row) for row in conn.execute(ordered).mappings()]
