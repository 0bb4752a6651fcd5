"""Laws of calls and what they are charged, looked at a part of all calls at a time.

Every part is one short snapshot in which all of these laws are asked, so that a ledger of any
size is never held open. Sums are the database's; rating again is ours, of a seeded sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Row

from billing.checks.report import Check, Progress, judged
from billing.pricebook import PriceBook
from billing.prices import load_book
from billing.rating import Charge, Unrateable, rate_frozen
from billing.store import audit_calls
from billing.store.engine import Store
from billing.store.parts import Part, parts
from billing.types import Usage

COUNTS = tuple(Usage.__struct_fields__)
PARTS = tuple(name for name in Charge.__struct_fields__ if name.endswith("_nanousd"))
PART_CALLS = 20_000


@dataclass(frozen=True, slots=True)
class Sample:
    """How many records about are rated again; the seed says which."""

    records: int
    seed: int


@dataclass(slots=True)
class _Found:
    """The first breaks of a law, and how much was looked at."""

    name: str
    law: str
    look: Callable[[Connection, Part], Sequence[str]]
    breaks: list[str] = field(default_factory=list)


def of_every_call(store: Store, sample: Sample, progress: Progress) -> list[Check]:
    """The laws of single calls, over all of them."""
    with store.read() as conn:
        records = audit_calls.count_records(conn)
    laws = _laws()
    chances = -(-sample.records * audit_calls.DRAWS // max(records, 1))
    book, rated, unlike = load_book(store), 0, list[str]()
    for number, part in enumerate(parts(store, PART_CALLS)):
        progress("calls", min(number * PART_CALLS, records), records)
        with store.read() as conn:
            for law in laws:
                law.breaks += () if law.breaks else law.look(conn, part)
            drawn = audit_calls.drawn(conn, part, sample.seed, chances)
        rated += len(drawn)
        unlike += () if unlike else _unlike(drawn, book)
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


def _laws() -> list[_Found]:
    return [
        _Found(
            "I3 one_charge_per_call",
            "a record has one charge exactly when its amount is above zero",
            _charges_amiss,
        ),
        _Found(
            "I3 reversals_linked",
            "a reversal moves back the whole of one transfer, which it is linked to",
            lambda conn, part: [
                f"{transfer} is not what it is linked to, moved back"
                for transfer in audit_calls.reversals_amiss(conn, part)
            ],
        ),
        _Found(
            "I4 nets_are_exact",
            "the net of a call's transfers is the amount of its best record",
            lambda conn, part: [
                f"{rid}: best record {amount}, transfers net {net}"
                for rid, amount, net in audit_calls.wrong_nets(conn, part)
            ],
        ),
        _Found(
            "I4 parts_add_up",
            "the amount of a record is the sum of its parts",
            lambda conn, part: [
                f"{rid}: amount {amount}, its parts sum to {total}"
                for rid, amount, total in audit_calls.parts_unlike_amounts(conn, part)
            ],
        ),
    ]


def _charges_amiss(conn: Connection, part: Part) -> list[str]:
    missing = [
        f"{rid} record {n}: amount {amount}, charged {charged}"
        for rid, n, amount, charged in audit_calls.charges_missing(conn, part)
    ]
    astray = audit_calls.charges_astray(conn, part)
    return [*missing, *(f"{transfer} stands for no record" for transfer in astray)]


def _unlike(rows: Sequence[Row[tuple[object, ...]]], book: PriceBook) -> list[str]:
    """The first record that its frozen prices rate otherwise."""
    for row in rows:
        if problem := _rerated(row, book):
            return [f"{row.rid}: {problem}"]
    return []


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
    return None
