"""The invoice run: one month, every organization, each in a transaction of its own.

An open month gives drafts, which every run recomputes. A past month is finalised, numbered and
posted once nothing can be missing from it: none of its calls is open, and the writer is past it. A
charge that comes later for a finalised month goes on the next invoice. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection

from billing.credits.credit import grant_of
from billing.db.engine import Store
from billing.invoices import store as rows
from billing.invoices.invoicing import Composition, Item, LineKind, Part, compose
from billing.ledger import store as transfers
from billing.ledger.posting import CLOCK_SKEW_MAX_US, transfer, unbilled
from billing.limits.keys import SHARDS
from billing.money import NANOUSD_PER_CENT
from billing.periods import Period, period, period_at
from billing.prices.book import Component, PriceBook, Unpriced
from billing.prices.rating import units_of
from billing.prices.versions import book_of
from billing.recovery import holds
from billing.types import COUNTS, Usage
from billing.writer import marks

ROUNDING = "rounding:cents"
RIDS_MAX = 500
BY_CALL = (Component.REQUEST, Component.MINIMUM)
"""Counted as one for every call that pays it."""


@dataclass(frozen=True, slots=True)
class InvoiceResult:
    """One invoice after a run. A draft has the reasons why it is one."""

    invoice: dict[str, Any]
    lines: list[dict[str, Any]]
    draft_because: tuple[str, ...] = ()

    @property
    def number(self) -> str | None:
        """`SLU-2026-000001`; a draft has none."""
        number = self.invoice["number"]
        return f"{self.invoice['series']}-{number:06d}" if number else None

    @property
    def total_nanousd(self) -> int:
        total_cents: int = self.invoice["total_cents"]
        return total_cents * NANOUSD_PER_CENT


def run_invoices(
    store: Store, month: str, *, now_us: int, series: str, org: str | None = None
) -> list[InvoiceResult]:
    """Draft or finalise the month `YYYY-MM`. A finalised invoice stays as it is. Raises
    BadPeriod."""
    billing_period = period(month)
    with store.read() as conn:
        orgs = [org] if org else rows.orgs_with_usage(conn, billing_period.end_us)
    results = []
    for one in orgs:
        with store.write() as conn:
            result = _run(conn, one, billing_period, now_us, series)
        if result:
            results.append(result)
    return results


def list_invoices(
    store: Store,
    *,
    now_us: int,
    org: str | None = None,
    month: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[InvoiceResult]:
    """Invoices as they were last written, by month and organization, from the one behind `after`. A
    draft has the reasons that keep it from being final now."""
    with store.read() as conn:
        return [
            InvoiceResult(
                row, rows.lines(conn, row["invoice_id"]), _draft_because(conn, row, now_us)
            )
            for row in rows.find(conn, org, month, after=after, limit=limit)
        ]


def _draft_because(conn: Connection, invoice: dict[str, Any], now_us: int) -> tuple[str, ...]:
    if invoice["status"] == "finalised":
        return ()
    reasons = _open_because(conn, invoice["org"], period(invoice["period"]), now_us)
    return reasons or ("the invoice run that finalises it is still to come",)


def line_transfers(store: Store, invoice_id: str, seq: int) -> list[dict[str, Any]]:
    """The transfers behind one line."""
    with store.read() as conn:
        return rows.links(conn, invoice_id, seq)


def _run(
    conn: Connection, org: str, billing_period: Period, now_us: int, series: str
) -> InvoiceResult | None:
    before = rows.find(conn, org, billing_period.name)
    if before and before[0]["status"] == "finalised":
        return InvoiceResult(before[0], rows.lines(conn, before[0]["invoice_id"]))
    invoice_id = _invoice_id(org, billing_period)
    periods = rows.finalised_periods(conn, org)
    billed = [
        row
        for row in rows.unbilled(conn, org, billing_period.end_us, invoice_id)
        if row["booked_us"] >= billing_period.start_us
        or period_at(row["booked_us"]).name in periods
    ]
    rows.delete_draft(conn, invoice_id)
    if not billed:
        return None
    composition = compose(_items(conn, billed), billing_period)
    _write(conn, org, billing_period, composition, billed, now_us, series)
    reasons = _open_because(conn, org, billing_period, now_us)
    if not reasons:
        year_series = f"{series}-{billing_period.name[:4]}"
        rows.finalise(conn, invoice_id, year_series)
        transfers.post(conn, _issue(org, invoice_id, composition, now_us))
    (invoice,) = rows.find(conn, org, billing_period.name)
    return InvoiceResult(invoice, rows.lines(conn, invoice_id), reasons)


def _open_because(
    conn: Connection, org: str, billing_period: Period, now_us: int
) -> tuple[str, ...]:
    reasons = []
    if now_us < billing_period.end_us:
        reasons.append(f"{billing_period.name} has not ended")
    if count := holds.count_before(conn, billing_period.end_us, org):
        reasons.append(f"{count} of its calls are still open")
    if marks.caught_up_us(conn, SHARDS) < billing_period.end_us + CLOCK_SKEW_MAX_US:
        reasons.append("the writer is not known to be past it")
    return tuple(reasons)


def _items(conn: Connection, billed: Sequence[dict[str, Any]]) -> list[Item]:
    book = book_of(conn)
    rids = sorted({row["rid"] for row in billed})
    records: dict[tuple[str, int], dict[str, Any]] = {}
    for start in range(0, len(rids), RIDS_MAX):
        records |= rows.records(conn, rids[start : start + RIDS_MAX])
    return [_item(row, records, book) for row in billed]


def _item(
    row: dict[str, Any], records: dict[tuple[str, int], dict[str, Any]], book: PriceBook
) -> Item:
    """The item of a transfer. The id of the transfer names its record: `<rid>:charge:<n>`,
    `<rid>:reversal:<n>`."""
    if grant_id := grant_of(row):
        return _credit(row, grant_id)
    record = records[row["rid"], int(row["transfer_id"].rpartition(":")[2])]
    reversal = row["kind"] == "reversal"
    return Item(
        transfer_id=row["transfer_id"],
        kind=LineKind.ADJUSTMENT if reversal else LineKind.USAGE,
        service=period_at(row["booked_us"]),
        project=record["project"],
        model=record["model"],
        tier=record["tier"],
        batch=bool(record["batch"]),
        price_version=record["price_version"],
        parts=_parts(record, book, sign=-1 if reversal else 1),
        is_simulated=bool(record["is_simulated"]),
    )


def _credit(row: dict[str, Any], grant_id: str) -> Item:
    """The item of a credit. An amount that a grant has paid is taken away. An amount that a
    correction gave back to the grant is added again."""
    sign = 1 if row["kind"] == "reversal" else -1
    return Item(
        transfer_id=row["transfer_id"],
        kind=LineKind.CREDIT,
        service=period_at(row["booked_us"]),
        project="",
        model="",
        tier="",
        batch=False,
        price_version="",
        parts=(Part(None, 0, 0, sign * row["amount_nanousd"]),),
        grant_id=grant_id,
    )


def _parts(record: dict[str, Any], book: PriceBook, *, sign: int) -> tuple[Part, ...]:
    prices = book.of_version(
        record["price_version"], record["model"], record["tier"], bool(record["batch"])
    )
    assert not isinstance(prices, Unpriced), f"{record['rid']} was charged without a price"
    usage = Usage(**{name: record[name] for name in COUNTS})
    return tuple(
        Part(
            component,
            sign * quantity,
            unit_price,
            sign * record[f"{component}_nanousd"],
        )
        for component, quantity, unit_price in units_of(usage, prices)
        if component not in BY_CALL or record[f"{component}_nanousd"]
    )


def _write(
    conn: Connection,
    org: str,
    billing_period: Period,
    composition: Composition,
    billed: Sequence[dict[str, Any]],
    now_us: int,
    series: str,
) -> None:
    invoice_id = _invoice_id(org, billing_period)
    rows.insert_draft(
        conn,
        {
            "invoice_id": invoice_id,
            "org": org,
            "period": billing_period.name,
            "status": "draft",
            "series": series,
            "number": None,
            "currency": "USD",
            "period_start_us": billing_period.start_us,
            "period_end_us": billing_period.end_us,
            "subtotal_nanousd": composition.subtotal_nanousd,
            "rounding_nanousd": composition.rounding_nanousd,
            "total_cents": composition.total_cents,
            "computed_us": now_us,
        },
        [
            {
                "invoice_id": invoice_id,
                "seq": seq,
                "kind": line.kind.value,
                "project": line.project,
                "model": line.model,
                "tier": line.tier,
                "batch": line.batch,
                "component": str(line.component),
                "price_version": line.price_version,
                "quantity": line.quantity,
                "unit_price_nanousd_per_mtok": line.unit_price_nanousd_per_mtok,
                "amount_nanousd": line.amount_nanousd,
                "service_start_us": line.service.start_us,
                "service_end_us": line.service.end_us,
                "grant_id": line.grant_id,
                "is_simulated": line.is_simulated,
            }
            for seq, line in enumerate(composition.lines, start=1)
        ],
        [{"transfer_id": row["transfer_id"], "invoice_id": invoice_id} for row in billed],
        [
            {
                "invoice_id": invoice_id,
                "seq": seq,
                "transfer_id": link.transfer_id,
                "amount_nanousd": link.amount_nanousd,
            }
            for seq, line in enumerate(composition.lines, start=1)
            for link in line.links
        ],
    )


def _issue(
    org: str, invoice_id: str, composition: Composition, now_us: int
) -> list[dict[str, Any]]:
    """The transfers that issue an invoice. Used amounts become owed ones. The rounding to cents is
    a transfer of its own."""
    receivable = f"org:{org}:receivable"
    moves = (
        ("invoice", unbilled(org), composition.subtotal_nanousd),
        ("rounding", ROUNDING, composition.rounding_nanousd),
    )
    return [
        transfer(
            f"{invoice_id}:{kind}",
            kind,
            receivable if amount > 0 else other,
            other if amount > 0 else receivable,
            abs(amount),
            org=org,
            booked_us=now_us,
            created_us=now_us,
        )
        for kind, other, amount in moves
        if amount
    ]


def _invoice_id(org: str, billing_period: Period) -> str:
    """The run key is the identity: a second invoice for the same month cannot be written."""
    return f"inv_{sha256(f'{org} {billing_period.name}'.encode()).hexdigest()[:24]}"
