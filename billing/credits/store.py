"""Statements on grants of credit, and on the standings of organizations.

A transaction that moves credits first locks the standings of its organizations, in their order. So
movements of one organization come one after another, in any number of processes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal,
    select,
    update,
)

from billing.credits.credit import (
    Burn,
    Category,
    CreditLine,
    Grant,
    GrantBalance,
    SpendableGrant,
    Standing,
)
from billing.credits.tables import CreditGrant, CreditStanding, CreditVoid
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import insert_new
from billing.ledger.store import ACCOUNT, TRANSFER
from billing.recovery.holds import HOLD

GRANT = table_of(CreditGrant)
VOID = table_of(CreditVoid)
STANDING = table_of(CreditStanding)


# --- standings ---------------------------------------------------------------------------------


def locked(conn: Connection, orgs: Sequence[str]) -> dict[str, Standing]:
    """The standings of those organizations that have one, locked until the end of the
    transaction."""
    rows = conn.execute(
        select(STANDING)
        .where(in_list(conn, STANDING.c.org, orgs))
        .order_by(STANDING.c.org)
        .with_for_update()
    )
    return {row.org: Standing(row.cleared_nanousd, row.moved_us) for row in rows}


def begun(conn: Connection, org: str) -> Standing:
    """The locked standing of an organization. One that had no credits so far has a standing from
    now on."""
    insert_new(conn, STANDING, [{"org": org, "cleared_nanousd": 0, "moved_us": 0}])
    return locked(conn, [org])[org]


def stand(conn: Connection, standings: Mapping[str, Standing]) -> None:
    """Write the new values of standings that were locked."""
    rows = [
        {"of": org, "cleared_now": cleared_nanousd, "moved_now": moved_us}
        for org, (cleared_nanousd, moved_us) in standings.items()
    ]
    if rows:
        conn.execute(_STAND, rows)


_STAND = (
    update(STANDING)
    .where(STANDING.c.org == bindparam("of"))
    .values(cleared_nanousd=bindparam("cleared_now"), moved_us=bindparam("moved_now"))
)


# --- grants ------------------------------------------------------------------------------------


def insert_grant(conn: Connection, grant: Grant, created_by: str, note: str) -> None:
    conn.execute(
        insert(GRANT).values(
            grant_id=grant.grant_id,
            org=grant.org,
            category=grant.category.value,
            amount_nanousd=grant.amount_nanousd,
            priority=grant.priority,
            effective_us=grant.effective_us,
            expires_us=grant.expires_us,
            models=list(grant.models),
            created_us=grant.created_us,
            created_by=created_by,
            note=note,
        )
    )


def insert_void(conn: Connection, grant_id: str, voided_us: int, voided_by: str) -> None:
    row = {"grant_id": grant_id, "voided_us": voided_us, "voided_by": voided_by}
    insert_new(conn, VOID, [row])


def find(
    conn: Connection,
    *,
    org: str | None = None,
    grant_id: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Grants as rows, with `voided_us`, `voided_by` and `left_nanousd`; the oldest first."""
    statement = _grants(GRANT, VOID.c.voided_us, VOID.c.voided_by).limit(limit)
    if org is not None:
        statement = statement.where(GRANT.c.org == org)
    if grant_id is not None:
        statement = statement.where(GRANT.c.grant_id == grant_id)
    if after is not None:
        created_us, last = after
        later = (GRANT.c.created_us == created_us) & (GRANT.c.grant_id > last)
        statement = statement.where((GRANT.c.created_us > created_us) | later)
    ordered = statement.order_by(GRANT.c.created_us, GRANT.c.grant_id)
    return [dict(row) for row in conn.execute(ordered).mappings()]


def paid(conn: Connection, grant_ids: Collection[str]) -> set[str]:
    """Those of the grants that were paid for. The others are promotional."""
    if not grant_ids:
        return set()
    named = in_list(conn, GRANT.c.grant_id, sorted(grant_ids))
    statement = select(GRANT.c.grant_id).where(named, GRANT.c.category == Category.PAID.value)
    return set(conn.execute(statement).scalars())


def held(
    conn: Connection, orgs: Sequence[str], also: Sequence[str] = ()
) -> dict[str, list[GrantBalance]]:
    """By organization the grants that have anything left. The grants named in `also` are there too,
    whatever they have."""
    statement = _grants(GRANT, VOID.c.voided_us).where(in_list(conn, GRANT.c.org, orgs))
    has_some: ColumnElement[bool] = ACCOUNT.c.credits > ACCOUNT.c.debits
    if also:
        has_some = has_some | in_list(conn, GRANT.c.grant_id, also)
    by_org: dict[str, list[GrantBalance]] = {}
    for row in conn.execute(statement.where(has_some)).mappings():
        by_org.setdefault(row["org"], []).append(GrantBalance(grant_of(row), row["left_nanousd"]))
    return by_org


def ended(conn: Connection, before_us: int, limit: int) -> list[tuple[str, str]]:
    """(organization, grant) of grants that ended before an instant and have something left. A grant
    that an open call may still use is not among them."""
    ends_us = _ends_us()
    open_calls = select(literal(1)).where(HOLD.c.org == GRANT.c.org, HOLD.c.admitted_us < ends_us)
    statement = (
        _joined(select(GRANT.c.org, GRANT.c.grant_id))
        .where(ACCOUNT.c.credits > ACCOUNT.c.debits, ends_us < before_us, ~open_calls.exists())
        .order_by(GRANT.c.org, GRANT.c.grant_id)
        .limit(limit)
    )
    return [(row.org, row.grant_id) for row in conn.execute(statement)]


def burns_of(conn: Connection, rids: Sequence[str]) -> dict[tuple[str, int], list[Burn]]:
    """By request id and record the amounts that each grant has paid. The id of a transfer names all
    three."""
    burns: dict[tuple[str, int], list[Burn]] = {}
    if not rids:
        return burns
    rows = conn.execute(
        select(TRANSFER.c.rid, TRANSFER.c.transfer_id, TRANSFER.c.amount_nanousd)
        .where(in_list(conn, TRANSFER.c.rid, rids), TRANSFER.c.kind == "burn")
        .order_by(TRANSFER.c.transfer_id)
    )
    for rid, transfer_id, amount_nanousd in rows:
        n, _, grant_id = transfer_id.removeprefix(f"{rid}:burn:").partition(":")
        burns.setdefault((rid, int(n)), []).append(Burn(grant_id, amount_nanousd))
    return burns


# --- lines -------------------------------------------------------------------------------------


def lines(
    conn: Connection, *, orgs: Sequence[str] | None = None, moved_since_us: int = 0
) -> dict[str, CreditLine]:
    """The lines of organizations: of these, or of all whose credits have moved since an instant."""
    statement = select(STANDING).where(STANDING.c.moved_us >= moved_since_us)
    if orgs is not None:
        statement = statement.where(in_list(conn, STANDING.c.org, orgs))
    standing = {row.org: row for row in conn.execute(statement)}
    grants = held(conn, list(standing)) if standing else {}
    return {
        org: CreditLine(
            org, row.moved_us, row.cleared_nanousd, [_left_of(h) for h in grants.get(org, ())]
        )
        for org, row in standing.items()
    }


def _left_of(one: GrantBalance) -> SpendableGrant:
    grant = one.grant
    return SpendableGrant(grant.effective_us, grant.ends_us, grant.models, one.left_nanousd)


def grant_of(row: Any) -> Grant:
    names = ("grant_id", "org", "amount_nanousd", "effective_us", "created_us", "priority")
    return Grant(
        **{name: row[name] for name in names},
        category=Category(row["category"]),
        expires_us=row["expires_us"],
        voided_us=row["voided_us"],
        models=tuple(row["models"]),
    )


def _grants(*columns: Any) -> Select[Any]:
    rest = ACCOUNT.c.credits - ACCOUNT.c.debits
    return _joined(select(*columns, rest.label("left_nanousd")))


def _joined(statement: Select[Any]) -> Select[Any]:
    """Every grant with its account, and with its voiding where there is one."""
    code = cast("org:", Text) + GRANT.c.org + ":grant:" + GRANT.c.grant_id
    both = GRANT.join(ACCOUNT, ACCOUNT.c.code == code)
    return statement.select_from(both.outerjoin(VOID, VOID.c.grant_id == GRANT.c.grant_id))


def _ends_us() -> ColumnElement[int]:
    """The end of a grant. It is far away where the grant neither expires nor is void."""
    never = 2**62
    expires_us = func.coalesce(GRANT.c.expires_us, never)
    voided_us = func.coalesce(VOID.c.voided_us, never)
    return case((expires_us < voided_us, expires_us), else_=voided_us)
