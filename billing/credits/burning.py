"""Credits in the transaction of the charges they pay for: grants are read, used up and written
back.

A batch whose organizations have no credits costs one look at an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from billing.credits import store as credits
from billing.credits.alerts import tell
from billing.credits.burns import OrganizationCredits, burn
from billing.ledger.posting import Posting


def paid_by_credits(
    conn: Connection, postings: Sequence[Posting], now_us: int
) -> list[dict[str, Any]]:
    """The transfers by which grants pay these charges. In the order of the ledger they come after
    the charges."""
    standings = credits.locked(conn, sorted({posting.usage["org"] for posting in postings}))
    if not standings:
        return []
    of_credits = [posting for posting in postings if posting.usage["org"] in standings]
    before = credits.burns_of(
        conn, [posting.usage["rid"] for posting in of_credits if posting.n > 1]
    )
    undone = sorted({burned.grant_id for burns in before.values() for burned in burns})
    held = credits.held(conn, list(standings), also=undone)
    purses = {org: OrganizationCredits(org, at, held.get(org, ())) for org, at in standings.items()}
    had = {org: purse.left_in_force(now_us) for org, purse in purses.items()}
    rows = burn(of_credits, purses, before, now_us)
    has = {org: purse.left_in_force(now_us) for org, purse in purses.items()}
    tell(conn, {org: (had[org], has[org]) for org in purses}, now_us)
    moved = {org: purse.standing for org, purse in purses.items()}
    credits.stand(conn, {org: at for org, at in moved.items() if at != standings[org]})
    return rows
