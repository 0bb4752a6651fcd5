"""Laws of calls and their charges. They are checked a part of all calls at a time.

Every part is one short snapshot for all of these laws, so that no ledger, however large, is held
open. The database computes sums. This process rates again a seeded sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Row

from billing.db.engine import Store
from billing.db.spans import Span, parts
from billing.ledger.report import Check, Progress, judged
from billing.prices.book import PriceBook
from billing.prices.rating import Charge, Unrateable, rate_frozen
from billing.prices.versions import load_book
from billing.types import usage_of
from billing.usage import call_audit

PARTS = tuple(name for name in Charge.__struct_fields__ if name.endswith("_nanousd"))
PART_CALLS = 20_000


@dataclass(frozen=True, slots=True)
class Sample:
    """The number of records, about, that are rated again. The seed selects them."""

    records: int
    seed: int


@dataclass(slots=True)
class _Law:
    """The first breaks of a law, and the number of rows that were looked at."""

    name: str
    law: str
    look: Callable[[Connection, Span], Sequence[str]]
    breaks: list[str] = field(default_factory=list)


def of_every_call(store: Store, sample: Sample, progress: Progress) -> list[Check]:
    """Check the laws of single calls over all calls."""
    with store.read() as conn:
        records = call_audit.count_records(conn)
    laws = _laws()
    chances = -(-sample.records * call_audit.DRAWS // max(records, 1))
    book, rated, unlike = load_book(store), 0, list[str]()
    for number, part in enumerate(parts(store, PART_CALLS)):
        progress("calls", min(number * PART_CALLS, records), records)
        with store.read() as conn:
            for law in laws:
                law.breaks += () if law.breaks else law.look(conn, part)
            sampled = call_audit.drawn(conn, part, sample.seed, chances)
        rated += len(sampled)
        unlike += () if unlike else _unlike(sampled, book)
    checks = [judged(law.name, law.law, law.breaks, records) for law in laws]
    return [
        *checks,
        judged(
            "I4 amounts_rerate",
            "rating the usage again with the frozen price version gives the amount booked"
            + (f" (of a sample, seed {sample.seed})" if rated < records else ""),
            unlike,
            rated,
        ),
    ]


def _laws() -> list[_Law]:
    return [
        _Law(
            "I3 one_charge_per_call",
            "a record has one charge exactly when its amount is above zero",
            _charges_amiss,
        ),
        _Law(
            "I3 reversals_linked",
            "a reversal moves back the whole of one transfer, which it is linked to",
            lambda conn, part: [
                f"{transfer} is not what it is linked to, moved back"
                for transfer in call_audit.reversals_amiss(conn, part)
            ],
        ),
        _Law(
            "I4 nets_are_exact",
            "the net of a call's transfers is the amount of its best record",
            lambda conn, part: [
                f"{rid}: best record {amount}, transfers net {net}"
                for rid, amount, net in call_audit.wrong_nets(conn, part)
            ],
        ),
        _Law(
            "I4 parts_add_up",
            "the amount of a record is the sum of its parts",
            lambda conn, part: [
                f"{rid}: amount {amount}, its parts sum to {total}"
                for rid, amount, total in call_audit.parts_unlike_amounts(conn, part)
            ],
        ),
    ]


def _charges_amiss(conn: Connection, part: Span) -> list[str]:
    without_charge = [
        f"{rid} record {n}: amount {amount}, charged {charged}"
        for rid, n, amount, charged in call_audit.charges_missing(conn, part)
    ]
    astray = call_audit.charges_astray(conn, part)
    return [*without_charge, *(f"{transfer} stands for no record" for transfer in astray)]


def _unlike(rows: Sequence[Row[tuple[object, ...]]], book: PriceBook) -> list[str]:
    """The first record whose frozen prices give another amount."""
    for row in rows:
        if problem := _rerated(row, book):
            return [f"{row.rid}: {problem}"]
    return []


def _rerated(row: Row[tuple[object, ...]], book: PriceBook) -> str | None:
    usage = usage_of(row)
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
    return None
