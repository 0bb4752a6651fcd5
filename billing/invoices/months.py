"""The invoice run: one month, every organization, each in a transaction of its own.

An open month gives drafts, which every run recomputes. A past month is finalised, numbered and
posted once nothing can be missing from it: none of its calls is open, and the writer is past it. A
charge that comes later for a finalised month goes on the next invoice. An invoice is composed from
sums in a snapshot and then written in a short transaction, so the writer of the ledger never waits
for a run. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection

from billing.charges import store as charges
from billing.charges.sums import Cell, Sums
from billing.credits import store as credits
from billing.currencies import store as rates
from billing.currencies.conversion import Conversion
from billing.currencies.exchange_rate import Shown
from billing.db.engine import Store, take_turns
from billing.invoices import agreed, reviews
from billing.invoices import store as rows
from billing.invoices.cuts import Cut, free
from billing.invoices.guards import GUARDS, Guards
from billing.invoices.invoicing import Composition, Line, LineKind, compose
from billing.invoices.issuing import issue
from billing.invoices.result import NOT_ISSUED, TO_COME, InvoiceResult, is_final
from billing.invoices.store import RUN_LOCK
from billing.ledger import store as transfers
from billing.ledger.posting import CLOCK_SKEW_MAX_US
from billing.limits.keys import SHARDS
from billing.money import whole_cents
from billing.parties import store as parties
from billing.parties.store import BilledAs, PartiesSeen
from billing.payments import store as payments
from billing.periods import Period, period, period_at
from billing.recovery import holds
from billing.taxes import vat_store
from billing.taxes.taxation import NO_TAX, Taxation, TaxBasis
from billing.taxes.vat_lookup import Doubt, doubts
from billing.terms.store import terms_of
from billing.terms.term import Term
from billing.writer import marks

NO_PROFILE = "it has no billing profile"
TRIES = 20
"""How often a run composes an invoice again because another run came between."""


class RunContended(Exception):
    """Other runs kept changing the invoices of an organization. The run may be repeated."""


def run_invoices(
    store: Store,
    month: str,
    *,
    now_us: int,
    series: str,
    org: str | None = None,
    grace_us: int = 0,
    guards: Guards = GUARDS,
) -> list[InvoiceResult]:
    """Draft or finalise the month `YYYY-MM`, `grace_us` after its end at the earliest. A finalised
    invoice stays as it is. Raises BadPeriod, and RunContended where other runs never leave off."""
    billing_period = period(month)
    with store.read() as conn:
        orgs = [org] if org else agreed.orgs(conn, billing_period)
    terms = RunTerms(now_us, series, grace_us, guards)
    results = (_run(store, one, billing_period, terms) for one in orgs)
    return [result for result in results if result]


def list_invoices(
    store: Store,
    *,
    now_us: int,
    org: str | None = None,
    month: str | None = None,
    after: tuple[str, str, int] | None = None,
    limit: int | None = None,
    guards: Guards = GUARDS,
) -> list[InvoiceResult]:
    """Invoices as they were last written, by month, organization and revision, from the one behind
    `after`. A draft has the reasons that keep it from being final now."""
    with store.read() as conn:
        return [
            _as_listed(conn, row, now_us, guards)
            for row in rows.find(conn, org, month, after=after, limit=limit)
        ]


def invoice_by_id(
    conn: Connection, invoice_id: str, now_us: int, guards: Guards = GUARDS
) -> InvoiceResult | None:
    row = rows.by_id(conn, invoice_id)
    return None if row is None else _as_listed(conn, row, now_us, guards)


def invoice_named(
    conn: Connection, name: str, now_us: int, guards: Guards = GUARDS
) -> InvoiceResult | None:
    """By its id or its number."""
    row = rows.by_number(conn, name)
    return invoice_by_id(conn, row["invoice_id"] if row else name, now_us, guards)


def _as_listed(
    conn: Connection, invoice: dict[str, Any], now_us: int, guards: Guards
) -> InvoiceResult:
    lines = rows.lines(conn, invoice["invoice_id"])
    if is_final(invoice):
        return _final(conn, invoice, lines, now_us)
    org, month = invoice["org"], period(invoice["period"])
    ends_us = {line["service_end_us"] for line in lines}
    grants = {line["grant_id"] for line in lines}
    billed_as = _billed_as(conn, org, month)
    basis = _basis(conn, billed_as, ends_us, grants)
    doubted = _doubts(conn, billed_as, basis, guards, now_us)
    review = (org, month.name, invoice["invoice_id"], invoice["total_cents"], guards, doubted)
    shown = rates.shown(conn, billed_as and billed_as[:2], now_us, guards.rate_days)
    lacks = _parked_because(conn, basis, shown)
    parked = (*lacks, *reviews.parked_because(conn, *review))
    is_one_off = invoice["kind"] == rows.ONE_OFF
    waits = () if is_one_off else _open_because(conn, org, month, now_us)
    reasons = (*waits, *parked)
    to_come = NOT_ISSUED if is_one_off else TO_COME
    parts = (parked, _taxation(basis, lines), now_us, lacks, shown and shown.conversion)
    return InvoiceResult(invoice, lines, reasons or (to_come,), *parts)


def _final(
    conn: Connection, invoice: dict[str, Any], lines: list[dict[str, Any]], now_us: int
) -> InvoiceResult:
    taxation = rows.taxes_of(conn, invoice["invoice_id"], lines)
    result = InvoiceResult(invoice, lines, taxation=taxation, seen_us=now_us)
    rate = result.conversion
    if rate is None:
        return result
    due_in_it = payments.tendered_due(conn, invoice["invoice_id"], rate, result.left_cents)
    return replace(result, tendered=due_in_it if due_in_it.booked_cents else None)


def _taxation(basis: TaxBasis | None, lines: list[dict[str, Any]]) -> Taxation:
    return NO_TAX if basis is None else basis.taxation(lines)


class InvoiceIdentity(NamedTuple):
    """Which invoice of a month it is, and the void one that it replaces."""

    invoice_id: str
    revision: int
    replaces_id: str | None


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What the ledger has for one invoice at one instant, and why it cannot be final yet."""

    identity: InvoiceIdentity
    invoice: dict[str, Any] | None
    cuts: tuple[Cut, ...]
    is_composed: bool
    """Whether the invoice has these very cuts already."""
    charges: tuple[Line, ...]
    """With what terms add to them."""
    agreed: tuple[Term, ...]
    states: list[rows.State]
    reasons: tuple[str, ...]
    parked: tuple[str, ...]
    billed_as: BilledAs | None
    basis: TaxBasis | None
    rate: Conversion | None
    parties: PartiesSeen | None = None


class RunTerms(NamedTuple):
    """By what a run goes, whichever invoices it writes."""

    now_us: int
    series: str
    grace_us: int = 0
    guards: Guards = GUARDS


def preview(
    store: Store, org: str, month: str, *, now_us: int, guards: Guards = GUARDS
) -> InvoiceResult | None:
    """The invoice as a run would draft it now, written nowhere; None where it has no line. A final
    one as it is. Raises BadPeriod."""
    billing_period = period(month)
    with store.read() as conn:
        seen = _snapshot(conn, org, billing_period, RunTerms(now_us, "", 0, guards))
        if seen.invoice and is_final(seen.invoice):
            lines = rows.lines(conn, seen.invoice["invoice_id"])
            return _final(conn, seen.invoice, lines, now_us)
    if not seen.charges:
        return None
    composition = compose(seen.charges, billing_period)
    invoice, lines = written(seen.identity, org, billing_period, composition, now_us)
    draft = {**invoice, **rows.STANDING, "series": ""}
    return _draft(seen, draft, lines, now_us)


def _draft(
    seen: _Snapshot, invoice: dict[str, Any], lines: list[dict[str, Any]], now_us: int
) -> InvoiceResult:
    parts = (seen.reasons, seen.parked, _taxation(seen.basis, lines), now_us)
    return InvoiceResult(invoice, lines, *parts, rate=seen.rate)


def _run(store: Store, org: str, billing_period: Period, terms: RunTerms) -> InvoiceResult | None:
    now_us = terms.now_us
    for _ in range(TRIES):
        with store.read() as conn:
            seen = _snapshot(conn, org, billing_period, terms)
            if seen.invoice and seen.is_composed and (seen.reasons or is_final(seen.invoice)):
                lines = rows.lines(conn, seen.invoice["invoice_id"])
                if is_final(seen.invoice):
                    return _final(conn, seen.invoice, lines, now_us)
                return _draft(seen, seen.invoice, lines, now_us)
        if seen.invoice is None and not seen.charges:
            return None
        invoice, lines = written(
            seen.identity, org, billing_period, compose(seen.charges, billing_period), now_us
        )
        with store.write_unsynced() if seen.reasons else store.write() as conn:
            take_turns(conn, RUN_LOCK)
            if _is_as_seen(conn, org, seen):
                by = seen.billed_as.seller.series if seen.billed_as else terms.series
                return _write(conn, seen, invoice | {"series": by}, lines, now_us)
    raise RunContended(f"others kept changing the invoices of {org}")


def _is_as_seen(conn: Connection, org: str, seen: _Snapshot) -> bool:
    """Whether nobody came between who changed what an invoice is made from."""
    return (
        rows.states(conn, org) == seen.states
        and terms_of(conn, org) == seen.agreed
        and parties.seen(conn, org) == seen.parties
    )


def _snapshot(conn: Connection, org: str, billing_period: Period, terms: RunTerms) -> _Snapshot:
    of_month = rows.find(conn, org, billing_period.name)
    revisions = [row for row in of_month if row["kind"] == rows.MONTH]
    identity = _identity(org, billing_period, revisions)
    invoice_id = identity.invoice_id
    invoice = next((row for row in revisions if row["invoice_id"] == invoice_id), None)
    states = rows.states(conn, org)
    if invoice and is_final(invoice):
        return _Snapshot(identity, invoice, (), True, (), (), states, (), (), None, None, None)
    void = {each.invoice_id for each in states if each.voided_us is not None}
    taken = [(owner, cut) for owner, cut in rows.cuts(conn, org) if owner not in void]
    finalised = rows.finalised_periods(conn, org)
    others = [cut for owner, cut in taken if owner != invoice_id]
    cuts = tuple(
        cut
        for month_us, moved_us in sorted(charges.months(conn, org, billing_period.end_us).items())
        if month_us == billing_period.start_us or period_at(month_us).name in finalised
        for cut in free(month_us, moved_us, others)
    )
    months = sorted({cut.service_start_us for cut in cuts})
    charged = tuple(line for at in months for line in _unbilled(conn, org, at, invoice_id))
    agreed_terms = terms_of(conn, org)
    begun = {billing_period.start_us} if billing_period.start_us <= terms.now_us else set()
    billed_as = _billed_as(conn, org, billing_period)
    of_terms = agreed.lines(
        *(conn, org, sorted({*months, *begun}), agreed_terms),
        but=invoice_id,
        language=billed_as.buyer.language if billed_as else "en",
    )
    lines = (*charged, *of_terms)
    is_composed = (
        invoice is not None
        and list(cuts) == [c for o, c in taken if o == invoice_id]
        and agreed.are_as_stored(conn, invoice_id, of_terms)
    )
    ends_us = {line.service.end_us for line in lines} | {billing_period.end_us}
    basis = _basis(conn, billed_as, ends_us, {line.grant_id for line in lines})
    total_cents = whole_cents(sum(line.amount_nanousd for line in lines))
    doubted = _doubts(conn, billed_as, basis, terms.guards, terms.now_us)
    review = (org, billing_period.name, invoice_id, total_cents, terms.guards, doubted)
    reviewed = reviews.parked_because(conn, *review)
    shown = rates.shown(conn, billed_as and billed_as[:2], terms.now_us, terms.guards.rate_days)
    parked = (*_parked_because(conn, basis, shown), *reviewed)
    waits = _open_because(conn, org, billing_period, terms.now_us, terms.grace_us)
    reasons = (*waits, *parked)
    return _Snapshot(
        *(identity, invoice, cuts, is_composed, lines, agreed_terms, states, reasons),
        *(parked, billed_as, basis, shown and shown.conversion, parties.seen(conn, org)),
    )


def _billed_as(conn: Connection, org: str, billing_period: Period) -> BilledAs | None:
    """The parties of now. The tax is that of the last instant of the month."""
    return parties.billed_as(conn, org, billing_period.end_us - 1)


def _basis(
    conn: Connection, billed_as: BilledAs | None, ends_us: set[int], grants: set[str]
) -> TaxBasis | None:
    """A month is taxed by the rule of its last instant, on whatever invoice its charges are."""
    if billed_as is None:
        return None
    instants_us = [end_us - 1 for end_us in sorted(ends_us)]
    rules = parties.rules_at(conn, billed_as, instants_us)
    by_end = {at_us + 1: rule for at_us, rule in rules.items()}
    lacks = () if all(rules.values()) else parties.lacks_at(conn, billed_as, instants_us)
    return TaxBasis(billed_as.seller, by_end, credits.paid(conn, grants - {""}), lacks)


def _parked_because(
    conn: Connection, basis: TaxBasis | None, shown: Shown | None
) -> tuple[str, ...]:
    """Where nobody sells, no tax is computed, and nothing is asked. Else an invoice waits for its
    billing profile, for a tax rule that fits, and for the rate of the currency that it shows: no
    tax is ever zero, and no total in USD alone, because nobody said it."""
    if basis is None:
        return (NO_PROFILE,) if parties.has_sellers(conn) else ()
    no_rate = (shown.missing_because,) if shown and shown.conversion is None else ()
    return (*basis.lacks, *no_rate)


def _doubts(
    conn: Connection,
    billed_as: BilledAs | None,
    basis: TaxBasis | None,
    guards: Guards,
    now_us: int,
) -> tuple[Doubt, ...]:
    """Of the buyer's VAT id, where it is to be looked up."""
    if billed_as is None or basis is None or guards.vat_days is None:
        return ()
    rules = [rule for held in basis.rules.values() for rule in held]
    vat_id = billed_as.buyer.vat_id
    return doubts(rules, vat_id, vat_store.last(conn, vat_id), now_us, guards.vat_days)


def _unbilled(conn: Connection, org: str, month_us: int, invoice_id: str) -> Iterator[Line]:
    """The charges of a month less what other invoices have of them."""
    billed = rows.billed(conn, org, month_us, invoice_id)
    for cell, sums in charges.sums_of(conn, org, month_us).items():
        quantity, amount, count = _less(sums, billed.get(cell, (0, 0, 0)))
        if quantity or amount or count:
            yield _line(cell, quantity, amount, count)


def _less(sums: Sums, billed: Sums) -> Sums:
    return sums[0] - billed[0], sums[1] - billed[1], sums[2] - billed[2]


def _line(cell: Cell, quantity: int, amount_nanousd: int, count: int) -> Line:
    _, month_us, kind, project, model, tier, batch, component, *rest = cell
    version, unit_price, grant_id, is_simulated = rest
    return Line(
        kind=LineKind(kind),
        service=period_at(month_us),
        project=project,
        model=model,
        tier=tier,
        batch=bool(batch),
        component=component,
        price_version=version,
        quantity=quantity,
        unit_price_nanousd_per_mtok=unit_price,
        amount_nanousd=amount_nanousd,
        transfers=count,
        grant_id=grant_id,
        is_simulated=bool(is_simulated),
    )


def _open_because(
    conn: Connection, org: str, month: Period, now_us: int, grace_us: int = 0
) -> tuple[str, ...]:
    """What may still be missing from the invoice of an organization."""
    count = holds.count_before(conn, month.end_us, org)
    of_org = [f"{count} of its calls are still open"] if count else []
    begun, writer = open_for_all(conn, month, now_us, grace_us)
    return (*begun, *of_org, *writer)


def open_for_all(
    conn: Connection, month: Period, now_us: int, grace_us: int
) -> tuple[list[str], list[str]]:
    """What keeps the invoices of all organizations from being final: the time, and the writer."""
    begun, writer = [], []
    if now_us < month.end_us:
        begun.append(f"{month.name} has not ended")
    elif now_us < month.end_us + grace_us:
        begun.append("its grace period has not ended")
    if marks.caught_up_us(conn, SHARDS) < month.end_us + CLOCK_SKEW_MAX_US:
        writer.append("the writer is not known to be past it")
    return begun, writer


def written(
    identity: InvoiceIdentity,
    org: str,
    billing_period: Period,
    composition: Composition,
    now_us: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An invoice and its lines as they are written."""
    invoice_id = identity.invoice_id
    invoice = {
        **identity._asdict(),
        "org": org,
        "period": billing_period.name,
        "kind": rows.MONTH,
        "status": "draft",
        "number": None,
        "currency": "USD",
        "period_start_us": billing_period.start_us,
        "period_end_us": billing_period.end_us,
        "subtotal_nanousd": composition.subtotal_nanousd,
        "rounding_nanousd": composition.rounding_nanousd,
        "total_cents": composition.total_cents,
        "tax_cents": 0,
        "computed_us": now_us,
    }
    return invoice, [
        {
            "invoice_id": invoice_id,
            "seq": seq,
            "kind": line.kind.value,
            "project": line.project,
            "model": line.model,
            "tier": line.tier,
            "batch": line.batch,
            "component": line.component,
            "price_version": line.price_version,
            "quantity": line.quantity,
            "unit_price_nanousd_per_mtok": line.unit_price_nanousd_per_mtok,
            "amount_nanousd": line.amount_nanousd,
            "service_start_us": line.service.start_us,
            "service_end_us": line.service.end_us,
            "grant_id": line.grant_id,
            "is_simulated": line.is_simulated,
            "transfers": line.transfers,
            "tax_place": None,
            "term_id": line.term_id,
            "description": line.description,
        }
        for seq, line in enumerate(composition.lines, start=1)
    ]


def _write(
    conn: Connection,
    seen: _Snapshot,
    invoice: dict[str, Any],
    lines: list[dict[str, Any]],
    now_us: int,
) -> InvoiceResult | None:
    """Write what was composed. What no charge is left of is deleted."""
    invoice_id = invoice["invoice_id"]
    if seen.invoice and seen.is_composed:
        invoice = seen.invoice | {"series": invoice["series"]}
    else:
        rows.delete_draft(conn, invoice_id)
        if not lines:
            return None
        rows.insert_draft(conn, invoice, lines, seen.cuts)
    taxation = _taxation(seen.basis, lines)
    if not seen.reasons:
        lines = [{**line, "tax_place": taxation.places.get(line["seq"])} for line in lines]
        transfers.post(conn, agreed.booked(invoice, lines, now_us))
        invoice = issue(
            *(conn, invoice, taxation, seen.billed_as),
            series=invoice["series"],
            now_us=now_us,
            conversion=seen.rate,
        )
    parts = (seen.reasons, seen.parked, taxation, now_us)
    rate = seen.rate if seen.reasons else None
    return InvoiceResult({**rows.STANDING, **invoice}, lines, *parts, rate=rate)


def _identity(org: str, billing_period: Period, revisions: list[dict[str, Any]]) -> InvoiceIdentity:
    """The invoice of a month that counts, or the one that comes after the last void one. Its id is
    of month and revision, so that no run writes it a second time."""
    last = revisions[-1] if revisions else None
    if last and last["voided_us"] is None:
        return InvoiceIdentity(last["invoice_id"], last["revision"], last["replaces_id"])
    revision = last["revision"] + 1 if last else 1
    named = f"{org} {billing_period.name}" + (f" {revision}" if last else "")
    invoice_id = f"inv_{sha256(named.encode()).hexdigest()[:24]}"
    return InvoiceIdentity(invoice_id, revision, last["invoice_id"] if last else None)
