"""One invoice as the console shows it: amounts, history, files, lines, payments, parties. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.credit_notes.crediting import CreditNoteResult
from billing.documents.document import DocumentParty
from billing.documents.forms.amounts import percent
from billing.documents.parties import NamedParties
from billing.history.history import ComingStep
from billing.invoices.invoicing import LineKind
from billing.invoices.result import InvoiceResult
from billing.money import NANOUSD_PER_CENT, usd
from billing.payments.paying import PaymentState
from billing.payments.payment import PartKind
from billing.taxes.taxation import TaxPart
from gateway.admin.invoices.service import HistoryRows
from gateway.console.action_forms import ActionForm, RefusedAction, with_typed
from gateway.console.formatting import DisplayTime, Money, instant, money
from gateway.console.pages.invoices.actions import actions_of, what_to_do
from gateway.console.pages.invoices.events import EventView, event_view
from gateway.console.pages.invoices.rows import InvoiceRowView, invoice_row

LINES_MAX = 200
PARTS = {
    PartKind.INVOICE: "on an invoice",
    PartKind.REFUND: "refunded",
    PartKind.REVERSAL: "did not hold",
}


@dataclass(frozen=True, slots=True)
class PaperView:
    """A document with files of its own."""

    id: str
    name: str
    words: str
    at: DisplayTime | None
    total: Money
    has_e_invoice: bool


@dataclass(frozen=True, slots=True)
class InvoiceLineView:
    seq: int
    words: str
    project: str
    quantity: str
    amount: Money
    calls: int


@dataclass(frozen=True, slots=True)
class PartView:
    at: DisplayTime
    words: str
    invoice: str
    amount: Money


@dataclass(frozen=True, slots=True)
class PaymentView:
    id: str
    name: str
    source: str
    note: str
    received: DisplayTime
    amount: Money
    came: str
    """In its own currency, where that is not USD."""
    on_account: Money
    parts: tuple[PartView, ...]


@dataclass(frozen=True, slots=True)
class PartyView:
    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TaxView:
    words: str
    reason: str
    base: Money
    tax: Money


@dataclass(frozen=True, slots=True)
class InvoiceView:
    row: InvoiceRowView
    kind: str
    replaces: str
    parked: tuple[tuple[str, str], ...]
    """Each reason with what to do about it."""
    waits: tuple[str, ...]
    amounts: tuple[tuple[str, Money], ...]
    converted: str
    """What it says in another currency, in words."""
    due_by: DisplayTime | None
    actions: tuple[ActionForm, ...]
    papers: tuple[PaperView, ...]
    events: tuple[EventView, ...]
    more_events: bool
    coming: ComingStep | None
    lines: tuple[InvoiceLineView, ...]
    lines_left: int
    payments: tuple[PaymentView, ...]
    more_payments: bool
    parties: tuple[PartyView, ...]
    are_frozen: bool
    taxes: tuple[TaxView, ...]


@dataclass(frozen=True, slots=True)
class InvoiceReads:
    """What the admin API has of one invoice."""

    result: InvoiceResult
    history: HistoryRows
    payments: Sequence[PaymentState]
    more_payments: bool
    notes: Sequence[CreditNoteResult]
    parties: NamedParties | None


def invoice_view(
    reads: InvoiceReads, organization: str, refused: RefusedAction | None, now_us: int
) -> InvoiceView:
    result, history = reads.result, reads.history
    invoice = result.invoice
    due_us = invoice["due_us"]
    return InvoiceView(
        row=invoice_row(result, organization, now_us),
        kind=invoice["kind"].replace("_", " "),
        replaces=invoice["replaces_id"] or "",
        parked=tuple(
            (f"{each[:1].upper()}{each[1:]}", what_to_do(result, each))
            for each in result.parked_because
        ),
        waits=result.waits_because,
        amounts=_amounts(result),
        converted=_converted(result),
        due_by=None if due_us is None else instant(due_us, now_us),
        actions=tuple(with_typed(each, refused) for each in actions_of(result)),
        papers=tuple(_papers(reads, now_us)),
        events=tuple(event_view(each, now_us) for each in history.data),
        more_events=history.has_more,
        coming=history.next_dunning_step,
        lines=tuple(_line(line) for line in result.lines[:LINES_MAX]),
        lines_left=max(0, len(result.lines) - LINES_MAX),
        payments=tuple(_payment(each, now_us) for each in reads.payments),
        more_payments=reads.more_payments,
        parties=tuple(_parties(reads, now_us)),
        are_frozen=result.number is not None,
        taxes=tuple(_tax(each) for each in result.taxation.parts),
    )


def _amounts(result: InvoiceResult) -> tuple[tuple[str, Money], ...]:
    amounts = {
        "Net": result.net_nanousd,
        "Tax": result.tax_nanousd,
        "Total": result.total_nanousd,
        "Paid": result.paid_nanousd,
        "Credited": result.invoice["noted_cents"] * NANOUSD_PER_CENT,
        "Due": result.due_nanousd,
    }
    return tuple((name, money(amount)) for name, amount in amounts.items())


def _converted(result: InvoiceResult) -> str:
    shown = result.converted
    if shown is None:
        return ""
    rate = shown.conversion
    amounts = {"tax": shown.tax_nano, "total": shown.total_nano, "due": shown.due_nano}
    words = ", ".join(f"{name} {money(amount).text}" for name, amount in amounts.items())
    at = f"{usd(rate.nano_per_usd)} for a USD, {rate.source}, {rate.day.isoformat()}"
    return f"In {rate.currency}: {words}, at {at}."


def _papers(reads: InvoiceReads, now_us: int) -> Iterator[PaperView]:
    result = reads.result
    invoice_id, is_issued = result.invoice["invoice_id"], result.number is not None
    name = result.number or "Draft"
    words = "the invoice" if is_issued else "made anew each time; its e-invoice comes with a number"
    at = instant(result.invoice["computed_us"], now_us) if is_issued else None
    yield PaperView(invoice_id, name, words, at, money(result.total_nanousd), is_issued)
    for each in reads.notes:
        note = each.note
        at = instant(note["created_us"], now_us)
        words = f"credit note: {note['reason']}"
        amount = money(each.total_nanousd)
        yield PaperView(note["note_id"], each.number, words, at, amount, has_e_invoice=True)


def _line(line: Mapping[str, Any]) -> InvoiceLineView:
    kind = "" if line["kind"] == LineKind.USAGE else line["kind"]
    parts = (kind, line["description"], line["model"], line["tier"], line["component"])
    return InvoiceLineView(
        seq=line["seq"],
        words=" ".join(str(part).replace("_", " ") for part in parts if part),
        project=line["project"],
        quantity=f"{line['quantity']:,}",
        amount=money(line["amount_nanousd"]),
        calls=line["transfers"],
    )


def _payment(state: PaymentState, now_us: int) -> PaymentView:
    payment, tendered = state.payment, state.tendered
    came = f"{money(tendered.amount_nano).text} {tendered.currency}" if tendered else ""
    return PaymentView(
        id=payment["payment_id"],
        name=payment["external_id"],
        source=payment["source"],
        note=payment["note"],
        received=instant(payment["received_us"], now_us),
        amount=money(state.amount_nanousd),
        came=came,
        on_account=money(state.on_account_nanousd),
        parts=tuple(_part(part, now_us) for part in state.parts),
    )


def _part(part: Mapping[str, Any], now_us: int) -> PartView:
    return PartView(
        at=instant(part["created_us"], now_us),
        words=PARTS[PartKind(part["kind"])],
        invoice=part["invoice_id"] or "",
        amount=money(part["amount_cents"] * NANOUSD_PER_CENT),
    )


def _parties(reads: InvoiceReads, now_us: int) -> Iterator[PartyView]:
    named = reads.parties
    if named is None:
        return
    yield PartyView("Seller", _facts(named.seller))
    terms = named.terms
    check = reads.result.invoice["vat_check"]
    more = {
        "Pays by": terms.due.isoformat() if terms.due else "",
        "Language": terms.language,
        "Buyer reference": terms.buyer_reference,
        "Purchase order": terms.purchase_order,
        "VAT id looked up": _checked(check, now_us) if check else "",
    }
    yield PartyView("Buyer", (*_facts(named.buyer), *_filled(more)))


def _facts(party: DocumentParty) -> tuple[tuple[str, str], ...]:
    address = party.address
    place = " ".join(filter(None, (address.postal_code, address.city, address.region)))
    return _filled(
        {
            "Name": party.name,
            "Address": ", ".join(filter(None, (*address.lines, place, address.country))),
            "VAT id": party.vat_id,
            "Tax id": party.tax_id,
            "E-mail": party.email,
            "Electronic address": party.electronic_address,
            "IBAN": party.iban,
        }
    )


def _filled(facts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in facts.items() if value)


def _checked(check: Mapping[str, Any], now_us: int) -> str:
    word = "in use" if check["is_valid"] else "not in use"
    consultation = check["consultation"]
    at = instant(check["checked_us"], now_us).iso
    return f"{word}, {at}" + (f", consultation {consultation}" if consultation else "")


def _tax(part: TaxPart) -> TaxView:
    treatment = part.treatment
    words = f"{treatment.category}, {percent(part.rate_ppm)} %"
    return TaxView(
        words=f"{words}, {part.jurisdiction}" if part.jurisdiction else words,
        reason=" ".join(filter(None, (treatment.reason_code, treatment.note))),
        base=money(part.base_cents * NANOUSD_PER_CENT),
        tax=money(part.tax_cents * NANOUSD_PER_CENT),
    )
