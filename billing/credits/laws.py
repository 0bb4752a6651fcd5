"""Laws of credits. No grant pays more than it has. The cleared amount is what was burned. Charges
were burned from grants in the documented order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection

from billing.credits import audit
from billing.credits.credit import Burn, account_of, grant_of, split
from billing.ledger.report import Check, judged

ORGS_MAX = 200
MOVEMENTS_MAX = 100_000
"""Repeated in order, of the organizations whose credits have moved last."""
KINDS = {"grant", "burn", "reversal", "breakage", "void", "refund"}


def laws_of_credits(conn: Connection) -> list[Check]:
    return [grants_add_up(conn), standings_recompute(conn), burns_in_order(conn)]


def grants_add_up(conn: Connection) -> Check:
    grants = {account_of(g.org, g.grant_id): g for g in audit.grants(conn)}
    sums = audit.sums_of_grants(conn)
    return judged(
        "I7 grants_pay_what_they_have",
        "a grant is booked once, and no more was taken from it than it has",
        _wrong_sums({code: grant.amount_nanousd for code, grant in grants.items()}, sums),
        len(grants),
    )


def _wrong_sums(
    amounts: dict[str, int], sums: dict[str, dict[str, tuple[int, int]]]
) -> Iterator[str]:
    for code in sorted({*amounts, *sums}):
        moved, amount = sums.get(code, {}), amounts.get(code)
        if amount is None:
            yield f"{code}: there is no such grant"
        elif moved.get("grant") != (1, amount):
            yield f"{code}: {amount} was granted, booked {moved.get('grant', (0, 0))[1]}"
        elif not set(moved) <= KINDS:
            yield f"{code}: moved by {', '.join(sorted(set(moved) - KINDS))}"
        elif sum(nanousd for _, nanousd in moved.values()) < 0:
            yield f"{code}: more was taken than the {amount} it has"


def standings_recompute(conn: Connection) -> Check:
    """Compare standings with the burns, and with what was spent less what is owed. The two are one
    law."""
    standing = audit.standings(conn)
    burned: dict[str, int] = {}
    for grant in audit.grants(conn):
        burned.setdefault(grant.org, 0)
    for code, moved in audit.sums_of_grants(conn).items():
        org = code.removeprefix("org:").partition(":grant:")[0]
        paid = -sum(moved[kind][1] for kind in ("burn", "reversal") if kind in moved)
        burned[org] = burned.get(org, 0) + paid
    orgs = sorted({*standing, *burned})
    totals, others = audit.spent_and_owed(conn, orgs), audit.owed_otherwise(conn, orgs)
    breaks = []
    for org in orgs:
        spent, debt = totals[org]
        real = {burned.get(org, 0), spent - debt + others.get(org, 0)}
        if real != {standing.get(org)}:
            breaks.append(
                f"{org}: cleared stands at {standing.get(org)}, burned {burned.get(org, 0)}, "
                f"spent {spent}, owed {debt}, of it otherwise {others.get(org, 0)}"
            )
    return judged(
        "I7 credits_cleared",
        "what grants have paid is what was spent and is not owed",
        breaks,
        len(orgs),
    )


def burns_in_order(conn: Connection) -> Check:
    """Repeat every movement, one after another, from nothing."""
    count = 0
    breaks: list[str] = []
    for org in audit.moved_last(conn, ORGS_MAX):
        if count >= MOVEMENTS_MAX or breaks:
            break
        moved = audit.movements(conn, org, MOVEMENTS_MAX - count)
        count += len(moved)
        breaks += list(_out_of_order(conn, org, moved))[:1]
    return judged(
        "I7 burn_order",
        "each charge was burned from the grants in force at its admission, in their order",
        breaks,
        count,
    )


def _out_of_order(conn: Connection, org: str, moved: list[dict[str, Any]]) -> Iterator[str]:
    grants = audit.grants(conn, org)
    records = audit.records(conn, sorted({row["rid"] for row in moved if row["rid"]}))
    rests: dict[str, int] = {}
    for _, step in groupby(moved, key=itemgetter("created_us")):
        rows = list(step)
        burns = sorted(Burn(grant_of(r), r["amount_nanousd"]) for r in rows if r["kind"] == "burn")
        for row in rows:
            if row["kind"] in ("grant", "reversal"):
                rests[grant_of(row)] = rests.get(grant_of(row), 0) + row["amount_nanousd"]
        if rid := rows[0]["rid"]:
            n = _record_of(rows)
            record = records.get((rid, n))
            if record is None:
                yield f"{rid}: burned for a record {n} that there is not"
                return
            expected = split(
                record.amount_nanousd,
                grants,
                rests,
                model=record.model,
                admitted_us=record.admitted_us,
            )
            if burns != sorted(expected):
                yield f"{rid} record {n}: burned {burns}, in order {sorted(expected)}"
                return
        for row in rows:
            if row["kind"] in ("burn", "breakage", "void", "refund"):
                rests[grant_of(row)] = rests.get(grant_of(row), 0) - row["amount_nanousd"]
                if row["kind"] in ("breakage", "void") and rests[grant_of(row)]:
                    yield f"{row['transfer_id']}: {rests[grant_of(row)]} was left"
                    return


def _record_of(rows: Sequence[dict[str, Any]]) -> int:
    """The number of the record that a step was for. The id of a burn names its record:
    `<rid>:burn:<n>:<grant>`. The id of a reversal names the record that it undoes:
    `<rid>:unburn:<n>:<grant>`."""
    record: str = rows[0]["transfer_id"].removeprefix(f"{rows[0]['rid']}:")
    kind, n = record.split(":")[:2]
    return int(n) + (kind == "unburn")
