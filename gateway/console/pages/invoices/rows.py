"""Invoices as the console shows them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.invoices.invoicing import LineKind
from billing.invoices.months import InvoiceResult
from billing.invoices.status import InvoiceStatus
from billing.money import NANOUSD_PER_CENT
from billing.payments.paying import PaymentState
from gateway.console.formatting import DisplayTime, Money, instant, money, since

LINES_MAX = 200
UNISSUED = (InvoiceStatus.DRAFT, InvoiceStatus.PARKED)
UNPAID = (InvoiceStatus.OPEN, InvoiceStatus.OVERDUE)
DONE = (InvoiceStatus.PAID, InvoiceStatus.VOID)


@dataclass(frozen=True, slots=True)
class InvoiceRowView:
    id: str
    name: str
    """Its number; a draft has none, so its id."""
    organization: str
    organization_id: str
    period: str
    status: str
    is_done: bool
    total: Money
    due: Money
    age: str
    """How long it is overdue; empty where it is not."""
    why: str
    """What keeps a draft from being issued."""


@dataclass(frozen=True, slots=True)
class InvoicesView:
    rows: tuple[InvoiceRowView, ...]
    filters: Mapping[str, str]
    statuses: tuple[str, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class InvoiceLineView:
    seq: int
    words: str
    project: str
    quantity: str
    amount: Money
    calls: int


@dataclass(frozen=True, slots=True)
class PaymentView:
    id: str
    name: str
    received: DisplayTime
    amount: Money
    applied: Money


@dataclass(frozen=True, slots=True)
class InvoiceView:
    row: InvoiceRowView
    kind: str
    replaces: str
    reasons: tuple[str, ...]
    net: Money
    tax: Money
    paid: Money
    credited: Money
    due_by: DisplayTime | None
    lines: tuple[InvoiceLineView, ...]
    lines_left: int
    payments: tuple[PaymentView, ...]
    is_draft: bool
    is_payable: bool
    is_creditable: bool
    is_voidable: bool


def invoice_row(result: InvoiceResult, organization: str, now_us: int) -> InvoiceRowView:
    invoice, status = result.invoice, result.status
    is_overdue = status is InvoiceStatus.OVERDUE
    return InvoiceRowView(
        id=invoice["invoice_id"],
        name=result.number or invoice["invoice_id"],
        organization=organization,
        organization_id=invoice["org"],
        period=invoice["period"],
        status=status.value,
        is_done=status in DONE,
        total=money(result.total_nanousd),
        due=money(result.due_nanousd),
        age=since(now_us - invoice["due_us"]) if is_overdue else "",
        why="; ".join(result.parked_because or result.draft_because),
    )


def invoice_view(
    result: InvoiceResult, payments: Sequence[PaymentState], organization: str, now_us: int
) -> InvoiceView:
    invoice, status = result.invoice, result.status
    due_us = invoice["due_us"]
    noted = invoice["noted_cents"] * NANOUSD_PER_CENT
    is_issued = status in (*UNPAID, InvoiceStatus.PAID)
    return InvoiceView(
        row=invoice_row(result, organization, now_us),
        kind=invoice["kind"].replace("_", " "),
        replaces=invoice["replaces_id"] or "",
        reasons=result.draft_because,
        net=money(result.net_nanousd),
        tax=money(result.tax_nanousd),
        paid=money(result.paid_nanousd),
        credited=money(noted),
        due_by=None if due_us is None else instant(due_us, now_us),
        lines=tuple(_line(line) for line in result.lines[:LINES_MAX]),
        lines_left=max(0, len(result.lines) - LINES_MAX),
        payments=tuple(_payment(each, now_us) for each in payments),
        is_draft=status in UNISSUED,
        is_payable=status in UNPAID,
        is_creditable=is_issued and result.payable_cents > invoice["noted_cents"],
        is_voidable=is_issued and not noted,
    )


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
    payment = state.payment
    return PaymentView(
        id=payment["payment_id"],
        name=payment["external_id"],
        received=instant(payment["received_us"], now_us),
        amount=money(state.amount_nanousd),
        applied=money(state.applied_nanousd),
    )
