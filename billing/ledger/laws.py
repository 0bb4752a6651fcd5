"""Laws of accounts: their totals are what the transfers moved."""

from __future__ import annotations

from sqlalchemy import Connection

from billing.ledger import audit
from billing.ledger import store as transfers
from billing.ledger.report import Check, judged


def debits_equal_credits(conn: Connection) -> Check:
    """Compare debits with credits over all accounts."""
    debits, credits = audit.totals(conn)
    return judged(
        "I1 debits_equal_credits",
        "the sum of debits equals the sum of credits",
        [f"debits {debits}, credits {credits}"] if debits != credits else [],
        audit.count(conn, "account"),
    )


def totals_recompute(conn: Connection) -> list[Check]:
    """Read every transfer once, for totals and for currencies."""
    stands = {row["code"]: row for row in transfers.accounts(conn)}
    moved = audit.moved(conn)
    real: dict[str, tuple[int, int]] = {}
    strange = []
    for code, currency, debits, credits in sorted(moved):
        before = real.get(code, (0, 0))
        real[code] = (before[0] + debits, before[1] + credits)
        if code not in stands or stands[code]["currency"] != currency:
            own = stands[code]["currency"] if code in stands else "no account"
            transfer = audit.moved_in(conn, code, currency)
            strange.append(f"{transfer} moves {currency} of {code}, which is in {own}")
    wrong = [
        f"{code}: stands at {row['debits']}/{row['credits']}, transfers give "
        f"{'/'.join(map(str, real.get(code, (0, 0))))}"
        for code, row in sorted(stands.items())
        if (row["debits"], row["credits"]) != real.get(code, (0, 0))
    ]
    return [
        judged(
            "I1 one_currency",
            "a transfer has the currency of both its accounts",
            strange,
            len(moved),
        ),
        judged(
            "I2 account_totals",
            "account totals equal their recomputation",
            wrong,
            len(stands),
        ),
    ]
