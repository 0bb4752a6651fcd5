"""Triggers of the tables whose rows stay as they were written, on either database.

A table is guarded by `forbid_changes`, or by `forbid_changes_once_final` where a row is free while
its invoice is a draft. PostgreSQL keeps the functions of the triggers of a dropped table: the
`drop_functions_...` of the same guard removes them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

CHANGES = ("update", "delete")
WRITES = ("insert", *CHANGES)
FINAL = "(SELECT status FROM invoice WHERE invoice_id = {row}.invoice_id) = 'finalised'"


def forbid_changes(*tables: str) -> None:
    """Rows are inserted, and never change."""
    for table in tables:
        for event in CHANGES:
            _forbid(table, event)
        _forbid_truncate(table)


def forbid_deletes(table: str) -> None:
    """Again, after `allow_deletes`."""
    _forbid(table, "delete")


def allow_deletes(table: str) -> None:
    """Rows that never change may be removed."""
    name = f"{table}_insert_only_delete"
    op.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if is_postgresql() else ""))
    if is_postgresql():
        op.execute(f"DROP FUNCTION {name}()")


def forbid_changes_once_final(table: str) -> None:
    """Rows may be written while their invoice is a draft."""
    for event in WRITES:
        name = f"{table}_final_{event}"
        when = FINAL.format(row="NEW" if event == "insert" else "OLD")
        if is_postgresql():
            kept = "OLD" if event == "delete" else "NEW"
            _function(table, name, f"IF {when} THEN RAISE", f"; END IF; RETURN {kept}")
            _trigger(table, name, event, "ROW")
        else:
            _aborting(table, name, event, f"WHEN {when} ")
    _forbid_truncate(table)


def drop_functions_of_changes(*tables: str) -> None:
    for table in tables:
        _drop_functions(table, *(f"insert_only_{event}" for event in CHANGES))


def drop_functions_of_final(table: str) -> None:
    _drop_functions(table, *(f"final_{event}" for event in WRITES))


def is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"


def _forbid(table: str, event: str) -> None:
    name = f"{table}_insert_only_{event}"
    if is_postgresql():
        _function(table, name, "RAISE", "")
        _trigger(table, name, event, "ROW")
    else:
        _aborting(table, name, event, "")


def _forbid_truncate(table: str) -> None:
    if is_postgresql():
        name = f"{table}_never_emptied"
        _function(table, name, "RAISE", "")
        _trigger(table, name, "truncate", "STATEMENT")


def _drop_functions(table: str, *ends: str) -> None:
    if is_postgresql():
        for end in (*ends, "never_emptied"):
            op.execute(f"DROP FUNCTION {table}_{end}()")


def _function(table: str, name: str, raises: str, end: str) -> None:
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"{raises} EXCEPTION '{table} may not change' USING ERRCODE = '23000'{end}; END $$"
    )


def _trigger(table: str, name: str, event: str, each: str) -> None:
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event.upper()} ON {table} FOR EACH {each} "
        f"EXECUTE FUNCTION {name}()"
    )


def _aborting(table: str, name: str, event: str, when: str) -> None:
    """Of SQLite."""
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event.upper()} ON {table} FOR EACH ROW {when}"
        f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
    )
