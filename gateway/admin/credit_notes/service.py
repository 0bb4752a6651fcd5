"""Credit notes as an administrator makes and reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing.credit_notes import store as rows
from billing.credit_notes.crediting import (
    CreditConflict,
    CreditNoteResult,
    LineCredit,
    credit,
    result_of,
)
from billing.credit_notes.note import BadCredit
from billing.db.engine import Store
from billing.invoices import store as invoices
from billing.invoices.voids import WrongInvoiceStatus
from billing.payments.payment import BadPayment, cents_of
from gateway.admin.credit_notes.schemas import CreditBody, CreditLineBody
from gateway.admin.use_cases import ADMIN, NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import ApiError, bad_request
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class CreditNoteService:
    ledger: Store
    clock: Clock

    async def credit(self, name: str, body: CreditBody) -> CreditNoteResult:
        """Raises ApiError 404, 400 for an amount that cannot be, 409 for a status that cannot
        or an `external_id` of something else."""
        now_us = round(self.clock() * 1e6)

        def work() -> CreditNoteResult:
            with self.ledger.read() as conn:
                invoice = invoices.by_id(conn, name) or invoices.by_number(conn, name)
            if invoice is None:
                raise NotThere(name)
            if body.lines and body.amount_usd is not None:
                raise BadCredit("amount_usd", "an amount or lines, not both")
            amount = body.amount_usd
            return credit(
                *(self.ledger, invoice["invoice_id"]),
                external_id=body.name,
                reason=body.reason,
                by=ADMIN,
                now_us=now_us,
                amount_cents=None if amount is None else cents_of(amount, "amount_usd"),
                lines=[_line(each) for each in body.lines],
            )

        try:
            return await attempt(work)
        except (BadCredit, BadPayment) as wrong:
            raise bad_request(str(wrong), wrong.field) from wrong
        except CreditConflict as conflict:
            raise ApiError(409, f"{conflict}.", code="conflict") from conflict
        except WrongInvoiceStatus as wrong:
            raise ApiError(
                409, f"'{name}' is not credited: {wrong}.", code="invoice_status"
            ) from wrong

    async def page(
        self, request: PageRequest, organization: str | None, invoice: str | None
    ) -> PageRows[CreditNoteResult]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, CreditNoteResult]]:
            after = None if behind is None else (behind[0], behind[1])
            with self.ledger.read() as conn:
                found = rows.find(
                    conn, org=organization, invoice_id=invoice, after=after, limit=limit
                )
                return [
                    ((note["created_us"], note["note_id"]), result_of(conn, note)) for note in found
                ]

        return await attempt(lambda: read_page(request, Source((int, str), read)))


def _line(body: CreditLineBody) -> LineCredit:
    if (body.quantity is None) == (body.amount_usd is None):
        raise BadCredit("lines", "a line has a quantity or an amount")
    amount = body.amount_usd
    cents = None if amount is None else cents_of(amount, "lines")
    return LineCredit(body.seq, body.quantity, cents)


async def notes_of(request: Request) -> CreditNoteService:
    parts = parts_of(request)
    return CreditNoteService(parts.ledger, parts.outside.clock)


CreditNotes = Annotated[CreditNoteService, Depends(notes_of)]
