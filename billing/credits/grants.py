"""Use cases of credits: give a grant, void one, look at them, and book what has ended.

A grant never changes. It begins now or later, never in the past. A voided grant ends a moment from
now, when every gateway has heard of it. So the grants that a call may use are known when it is
admitted, and stay the same. The rest of a grant is booked away once no call can use it any more.
Guards law 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from billing.credits import store as credits
from billing.credits.alerts import tell_now
from billing.credits.burns import moved
from billing.credits.credit import Category, CreditLine, Grant, GrantBalance, account_of
from billing.db.engine import Store
from billing.ledger import store as transfers
from billing.ledger.posting import CLOCK_SKEW_MAX_US, transfer
from billing.limits.keys import SHARDS
from billing.money import NANOUSD_MAX
from billing.writer import marks

CASH = "cash"
PROMOTION = "expense:promotion"
BREAKAGE = "revenue:breakage"
VOID_AFTER_US = 5_000_000
"""Longer than a gateway may take to hear of it."""
ENDS_AT_ONCE = 500


class CreditError(ValueError):
    """A grant that cannot be given like this."""


class UnknownGrant(LookupError):
    """No grant has this id."""


class GrantConflict(Exception):
    """The request contradicts the grant as it is."""


@dataclass(frozen=True, slots=True)
class StoredGrant:
    """A grant with its standing. `left_nanousd` is what its account has."""

    grant: Grant
    left_nanousd: int
    created_by: str
    note: str
    voided_by: str | None


def give(
    store: Store, grant: Grant, *, created_by: str, now_us: int, note: str = ""
) -> tuple[StoredGrant, bool]:
    """Book a grant, and say whether it is new. The same grant again under its id changes nothing.

    An instant is compared only where it is later than the making of the grant. So a repeated
    request that begins "now" means the grant that began with the first one. Raises CreditError and
    GrantConflict.
    """
    try:
        with store.write() as conn:
            return give_in(conn, grant, created_by=created_by, now_us=now_us, note=note)
    except IntegrityError as conflict:  # by another organization, at this very moment
        raise _taken(grant) from conflict


def give_in(
    conn: Connection, grant: Grant, *, created_by: str, now_us: int, note: str = ""
) -> tuple[StoredGrant, bool]:
    """The same inside the caller's transaction, where another organization that gives a grant of
    this id at this very moment is an IntegrityError."""
    _check(grant, now_us)
    standing = credits.begun(conn, grant.org)
    present = credits.find(conn, grant_id=grant.grant_id)
    if present:
        return _same(_of_row(present[0]), grant), False
    standing = moved(standing, 0, now_us)
    credits.insert_grant(conn, grant, created_by, note)
    from_account = CASH if grant.category is Category.PAID else PROMOTION
    row = transfer(
        f"grant:{grant.grant_id}",
        "grant",
        from_account,
        account_of(grant.org, grant.grant_id),
        grant.amount_nanousd,
        org=grant.org,
        booked_us=grant.effective_us,
        created_us=standing.moved_us,
    )
    transfers.post(conn, [row])
    credits.stand(conn, {grant.org: standing})
    tell_now(conn, [grant.org], now_us)
    return _of_row(credits.find(conn, grant_id=grant.grant_id)[0]), True


def take_back(
    conn: Connection, grant_id: str, amount_nanousd: int, *, transfer_id: str, now_us: int
) -> None:
    """Move what a paid grant has left, or some of it, back to the cash that it came from, inside
    the caller's transaction. Raises GrantConflict where it has less, or has ended: what such a
    grant has left is booked away by itself."""
    org = one_in(conn, grant_id).grant.org
    standing = moved(credits.locked(conn, [org])[org], 0, now_us)
    present = one_in(conn, grant_id)
    ends_us = present.grant.ends_us
    if ends_us is not None and ends_us <= now_us + VOID_AFTER_US:
        raise GrantConflict(f"the grant {grant_id!r} has ended")
    if not 0 < amount_nanousd <= present.left_nanousd:
        raise GrantConflict(f"the grant {grant_id!r} has {present.left_nanousd} nano-USD left")
    row = transfer(
        transfer_id,
        "refund",
        account_of(org, grant_id),
        CASH,
        amount_nanousd,
        org=org,
        booked_us=now_us,
        created_us=standing.moved_us,
    )
    transfers.post(conn, [row])
    credits.stand(conn, {org: standing})
    tell_now(conn, [org], now_us)


def void(store: Store, grant_id: str, *, voided_by: str, now_us: int) -> StoredGrant:
    """End a grant a moment from now. Voiding it again changes nothing. Raises UnknownGrant and
    GrantConflict."""
    with store.write() as conn:
        present = one_in(conn, grant_id)
        standing = credits.locked(conn, [present.grant.org])[present.grant.org]
        present = one_in(conn, grant_id)
        if present.grant.voided_us is not None:
            return present
        voided_us = now_us + VOID_AFTER_US
        if present.grant.expires_us is not None and present.grant.expires_us <= voided_us:
            raise GrantConflict(f"the grant {grant_id!r} has ended by itself")
        credits.insert_void(conn, grant_id, voided_us, voided_by)
        credits.stand(conn, {present.grant.org: moved(standing, 0, now_us)})
        return one_in(conn, grant_id)


def one(store: Store, grant_id: str) -> StoredGrant:
    """The grant of an id. Raises UnknownGrant."""
    with store.read() as conn:
        return one_in(conn, grant_id)


def every(
    store: Store, org: str | None = None, *, after: str | None = None, limit: int | None = None
) -> list[StoredGrant]:
    """Grants, oldest first, from the one that follows `after`. Raises UnknownGrant."""
    with store.read() as conn:
        last = one_in(conn, after).grant if after is not None else None
        from_here = (last.created_us, last.grant_id) if last else None
        return [_of_row(row) for row in credits.find(conn, org=org, after=from_here, limit=limit)]


def line_of(store: Store, org: str) -> CreditLine:
    """The standing of one organization now."""
    with store.read() as conn:
        return credits.lines(conn, orgs=[org]).get(org, CreditLine(org))


def book_ends(store: Store, now_us: int) -> int:
    """Book away what is left of grants that have ended. The writer has to be past their end, and no
    call that may use them may be open. Returns how many grants that were."""
    with store.read() as conn:
        caught_up_us = min(marks.caught_up_us(conn, SHARDS), now_us)
        ends = credits.ended(conn, caught_up_us - CLOCK_SKEW_MAX_US, ENDS_AT_ONCE)
    if not ends:
        return 0
    orgs, names = sorted({org for org, _ in ends}), {grant_id for _, grant_id in ends}
    with store.write() as conn:
        standings = credits.locked(conn, orgs)
        rows = []
        for org, grants in sorted(credits.held(conn, orgs).items()):
            for held in grants:
                if held.grant.grant_id in names:
                    standings[org] = moved(standings[org], 0, now_us)
                    rows.append(_end(held, standings[org].moved_us))
        transfers.post(conn, rows)
        credits.stand(conn, standings)
        tell_now(conn, orgs, now_us)
        return len(rows)


def _end(held: GrantBalance, at_us: int) -> dict[str, Any]:
    """The transfer that ends a grant. A paid grant that was not used up in time is earned. A voided
    grant is as if it had never been given. A later correction may leave something in the account
    again, so an end may be booked twice."""
    grant = held.grant
    kind, of_paid = ("void", CASH) if grant.is_void else ("breakage", BREAKAGE)
    return transfer(
        f"grant:{grant.grant_id}:{kind}:{at_us}",
        kind,
        account_of(grant.org, grant.grant_id),
        of_paid if grant.category is Category.PAID else PROMOTION,
        held.left_nanousd,
        org=grant.org,
        booked_us=grant.ends_us,
        created_us=at_us,
    )


def _check(grant: Grant, now_us: int) -> None:
    if not 0 < grant.amount_nanousd <= NANOUSD_MAX // 2:
        raise CreditError("a grant has an amount above zero, which the ledger can hold")
    if grant.effective_us < now_us:
        raise CreditError("a grant cannot begin in the past")
    if grant.expires_us is not None and grant.expires_us <= grant.effective_us:
        raise CreditError("a grant ends after it begins")


def _same(present: StoredGrant, grant: Grant) -> StoredGrant:
    known = present.grant
    terms: Sequence[tuple[object, object]] = (
        (known.org, grant.org),
        (known.category, grant.category),
        (known.amount_nanousd, grant.amount_nanousd),
        (known.priority, grant.priority),
        (known.expires_us, grant.expires_us),
        (sorted(known.models), sorted(grant.models)),
        (_later_start(known), _later_start(grant)),
    )
    if any(own != other for own, other in terms):
        raise _taken(grant)
    return present


def _taken(grant: Grant) -> GrantConflict:
    return GrantConflict(f"there is another grant with the id {grant.grant_id!r}")


def _later_start(grant: Grant) -> int | None:
    """The beginning of a grant that was not to begin at once, else None."""
    return grant.effective_us if grant.effective_us > grant.created_us else None


def one_in(conn: Connection, grant_id: str) -> StoredGrant:
    rows = credits.find(conn, grant_id=grant_id)
    if not rows:
        raise UnknownGrant(grant_id)
    return _of_row(rows[0])


def _of_row(row: dict[str, Any]) -> StoredGrant:
    return StoredGrant(
        grant=credits.grant_of(row),
        left_nanousd=row["left_nanousd"],
        created_by=row["created_by"],
        note=row["note"],
        voided_by=row["voided_by"],
    )
