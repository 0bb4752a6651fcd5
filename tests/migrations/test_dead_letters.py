"""What the revision of dead letters does to letters that are there, on both databases."""

from __future__ import annotations

import pytest
from alembic import command
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from billing.db.engine import Store, open_store
from billing.writer import dead_letters
from migrations.run import alembic_config, migrate, rebuilding

LETTER = (
    "INSERT INTO dead_letter (shard, entry, rid, reason, detail, payload, created_us) "
    "VALUES (0, '1-1', 'req_1', 'malformed', 'why', '{', 7)"
)


def refused(store: Store, statement: str) -> None:
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text(statement))


def test_letters_stay_and_never_change_and_the_way_down_leaves_them(url: str) -> None:
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), "0015")
        conn.execute(text(LETTER))
    migrate(url)
    (letter,) = dead_letters.listed(store)
    assert (letter.rid, letter.detail, letter.kind) == ("req_1", "why", "settled")
    dead_letters.judge(store, letter.number, by="ann", note="a test", now_us=9)
    for table in ("dead_letter", "dead_letter_resolution"):
        refused(store, f"DELETE FROM {table}")
    refused(store, "UPDATE dead_letter SET payload = ''")
    refused(store, "UPDATE dead_letter_resolution SET note = 'another'")
    with rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), "0015")
        assert "kind" not in {c["name"] for c in inspect(conn).get_columns("dead_letter")}
        assert conn.execute(text("SELECT detail FROM dead_letter")).scalar_one() == "why"
        conn.execute(text("DELETE FROM dead_letter"))
    store.close()


@pytest.mark.parametrize("wrong", ["(1, 'judged', 'ann', '', 9)", "(1, 'lost', 'ann', 'x', 9)"])
def test_a_judgement_has_a_reason_and_an_outcome_is_known(url: str, wrong: str) -> None:
    migrate(url)
    store = open_store(url)
    with store.write() as conn:
        conn.execute(text(LETTER))
    with pytest.raises(IntegrityError), store.write() as conn:
        conn.execute(text(f"INSERT INTO dead_letter_resolution VALUES {wrong}"))
    store.close()
