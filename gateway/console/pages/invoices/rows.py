"""Invoices of a month as the console lists them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from billing.invoices.result import InvoiceResult
from billing.invoices.status import InvoiceStatus
from gateway.console.formatting import Money, money, since

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
