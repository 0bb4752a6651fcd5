"""Attempts of an older release are told by what stood before them."""

from __future__ import annotations

from alembic import command
from sqlalchemy import text

from billing.db.engine import open_store
from migrations.run import alembic_config, rebuilding

BEFORE, AFTER = "0045", "0046"
OUTCOMES = {
    "plain": [("m", "answered")],
    "again": [("m", "unreachable"), ("m", "answered")],
    "other": [("m", "lost"), ("n", "lost"), ("n", "answered")],
    "moved": [("m", "moved"), ("m", "cut")],
}
KINDS = {
    "plain": ["first"],
    "again": ["first", "retry"],
    "other": ["first", "fallback", "retry"],
    "moved": ["first", "resume"],
}


def test_the_kind_of_an_older_attempt_is_concluded_from_the_one_before(url: str) -> None:
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), BEFORE)
        for rid, attempts in OUTCOMES.items():
            for n, (model, outcome) in enumerate(attempts):
                conn.execute(
                    text(
                        "INSERT INTO attempt (rid, n, pool, replica, started_us, outcome, model,"
                        " input, cached_input, output)"
                        " VALUES (:rid, :n, 'p', 'r', 0, :outcome, :model, 0, 0, 0)"
                    ),
                    {"rid": rid, "n": n, "model": model, "outcome": outcome},
                )
        command.upgrade(alembic_config(conn), AFTER)
    with store.read() as conn:
        rows = conn.execute(text("SELECT rid, kind FROM attempt ORDER BY rid, n")).all()
    assert [kind for rid in sorted(KINDS) for kind in KINDS[rid]] == [row.kind for row in rows]
    with rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), BEFORE)
    store.close()
