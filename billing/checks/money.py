"""Laws of transfers, accounts and charges."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, Row

from billing.checks.report import Check, judged
from billing.pricebook import PriceBook
from billing.rating import Charge, Unrateable, rate_frozen
from billing.store import audit
from billing.types import Usage

COUNTS = tuple(Usage.__struct_fields__)
PARTS = tuple(name for name in Charge.__struct_fields__ if name.endswith("_nanousd"))


def debits_equal_credits(conn: Connection) -> Check:
    debits, credits = audit.totals(conn)
    breaks = [f"debits {debits}, credits {credits}"] if debits != credits else []
    breaks += [f"{rid} crosses currencies" for rid in audit.currency_mixed(conn)]
    return judged(
        "I1 debits_equal_credits",
        "the sum of debits equals the sum of credits",
        breaks,
        audit.count(conn, "transfer"),
    )


def totals_recompute(conn: Connection) -> Check:
    breaks = [
        f"{code}: stands at {debits}/{credits}, transfers give {real_debits}/{real_credits}"
        for code, debits, credits, real_debits, real_credits in audit.wrong_totals(conn)
    ]
    return judged(
        "I2 account_totals",
        "account totals equal their recomputation",
        breaks,
        audit.count(conn, "account"),
    )


def one_charge_per_call(conn: Connection) -> Check:
    breaks = [
        f"{rid} record {n}: amount {amount}, charged {charged}"
        for rid, n, amount, charged in audit.charges_missing(conn)
    ]
    breaks += [f"{astray} stands for no record" for astray in audit.transfers_astray(conn)]
    return judged(
        "I3 one_charge_per_call",
        "a usage event has one charge exactly when its amount is above zero",
        breaks,
        audit.count(conn, "transfer"),
    )


def nets_are_exact(conn: Connection) -> Check:
    breaks = [
        f"{rid}: best record {amount}, transfers net {net}"
        for rid, amount, net in audit.wrong_nets(conn)
    ]
    return judged(
        "I4 nets_are_exact",
        "the net of a call's transfers is the amount of its best record",
        breaks,
        audit.count(conn, "transfer"),
    )


def amounts_rerate(conn: Connection, book: PriceBook) -> Check:
    counted = 0

    def breaks() -> Iterator[str]:
        nonlocal counted
        for row in audit.every_record(conn):
            counted += 1
            if problem := _rerated(row, book):
                yield f"{row.rid}: {problem}"

    found = next(breaks(), None)
    return judged(
        "I4 amounts_rerate",
        "rating the usage again with the frozen price version gives the amount booked",
        [found] if found else [],
        counted,
    )


def _rerated(row: Row[tuple[object, ...]], book: PriceBook) -> str | None:
    usage = Usage(**{name: getattr(row, name) for name in COUNTS})
    try:
        charge = rate_frozen(
            book,
            model=row.model,
            tier=row.tier,
            batch=bool(row.batch),
            usage=usage,
            price_version=row.price_version,
        )
    except Unrateable as error:
        return str(error)
    booked = {part: getattr(row, part) for part in PARTS}
    rated = {part: getattr(charge, part) for part in PARTS}
    if booked != rated:
        return f"booked {booked}, rates to {rated}"
    if row.amount_nanousd != charge.amount_nanousd:
        return f"amount {row.amount_nanousd}, its parts sum to {charge.amount_nanousd}"
    return None
