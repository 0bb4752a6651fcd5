"""Payments as an administrator books and reads them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from billing.currencies.conversion import USD
from billing.db.engine import Store
from billing.invoices import store as invoices
from billing.invoices.guards import Guards
from billing.invoices.months import invoice_by_id
from billing.invoices.result import InvoiceResult
from billing.payments import paying
from billing.payments.bank_file import BadBankFile
from billing.payments.bank_import import BankImport, import_payments
from billing.payments.paying import NotPayable, PaymentConflict, PaymentState, UnknownPayment
from billing.payments.payment import BadPayment, Receipt, cents_of
from billing.payments.signing_secrets import put_secret
from billing.settings import guards_of
from gateway.admin.payments.schemas import (
    ImportBody,
    PayBody,
    RefundBody,
    ReverseBody,
    SecretBody,
)
from gateway.admin.use_cases import ADMIN, NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import ApiError, bad_request
from routing.types import Clock

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PaymentService:
    """Raises ApiError: 404 for what is not there, 400 for an amount or a file that cannot be, 409
    for a draft, a void invoice and an external id that stands for something else."""

    ledger: Store
    guards: Guards
    clock: Clock

    async def pay(self, name: str, body: PayBody) -> InvoiceResult:
        now_us = self._now_us

        def work() -> InvoiceResult:
            invoice = self._named(name)
            receipt = Receipt(
                org=invoice["org"],
                external_id=body.external_id,
                amount_cents=cents_of_body(body),
                received_us=now_us if body.received_at is None else body.received_at,
                currency=body.currency,
                note=body.note,
                invoice_id=invoice["invoice_id"],
            )
            paying.pay(self.ledger, receipt, by=ADMIN, now_us=now_us)
            return self._result(invoice["invoice_id"])

        return await checked(work)

    async def apply_balance(self, name: str) -> InvoiceResult:
        now_us = self._now_us

        def work() -> InvoiceResult:
            invoice_id = self._named(name)["invoice_id"]
            paying.apply_balance(self.ledger, invoice_id, by=ADMIN, now_us=now_us)
            return self._result(invoice_id)

        return await checked(work)

    async def refund(self, payment_id: str, body: RefundBody) -> PaymentState:
        now_us = self._now_us

        def work() -> PaymentState:
            amount = body.amount_usd
            cents = None if amount is None else cents_of(amount, "amount_usd")
            words = {"external_id": body.external_id, "reason": body.reason}
            return paying.refund(self.ledger, payment_id, cents, **words, by=ADMIN, now_us=now_us)

        return await checked(work)

    async def reverse(self, payment_id: str, body: ReverseBody) -> PaymentState:
        words: dict[str, Any] = {"reason": body.reason, "by": ADMIN, "now_us": self._now_us}
        return await checked(lambda: paying.reverse(self.ledger, payment_id, **words))

    async def import_file(self, body: ImportBody) -> BankImport:
        now_us = self._now_us
        return await checked(
            lambda: import_payments(
                *(self.ledger, body.csv), by=ADMIN, now_us=now_us, guards=self.guards
            )
        )

    async def put_secret(self, seller: str, body: SecretBody) -> dict[str, Any]:
        now_us = self._now_us

        def work() -> dict[str, Any]:
            if not put_secret(self.ledger, seller, body.secret, now_us):
                raise NotThere(seller)
            return {"seller": seller, "changed_us": now_us}

        return await attempt(work)

    async def page(
        self, request: PageRequest, organization: str | None, invoice: str | None
    ) -> PageRows[PaymentState]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, PaymentState]]:
            after = None if behind is None else (behind[0], behind[1])
            found = paying.list_payments(
                self.ledger, org=organization, invoice_id=invoice, after=after, limit=limit
            )
            return [((s.payment["created_us"], s.payment["payment_id"]), s) for s in found]

        return await attempt(lambda: read_page(request, Source((int, str), read)))

    def _named(self, name: str) -> dict[str, Any]:
        """By its id or its number. Raises NotThere."""
        with self.ledger.read() as conn:
            invoice = invoices.by_id(conn, name) or invoices.by_number(conn, name)
        if invoice is None:
            raise NotThere(name)
        return invoice

    def _result(self, invoice_id: str) -> InvoiceResult:
        with self.ledger.read() as conn:
            result = invoice_by_id(conn, invoice_id, self._now_us)
        assert result is not None, "it was paid"
        return result

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def cents_of_body(body: PayBody) -> int:
    """In the currency of the body. Raises BadPayment."""
    if (body.amount is None) is (body.amount_usd is None):
        raise BadPayment("amount_usd", "say either amount_usd, or amount and its currency")
    if body.amount_usd is None:
        return cents_of(body.amount or 0, "amount")
    if body.currency != USD:
        raise BadPayment("currency", "amount_usd is in USD; of another currency say amount")
    return cents_of(body.amount_usd, "amount_usd")


async def checked(work: Callable[[], Result]) -> Result:
    try:
        return await attempt(work)
    except BadPayment as wrong:
        raise bad_request(str(wrong), wrong.field) from wrong
    except BadBankFile as wrong:
        raise bad_request(str(wrong), "csv") from wrong
    except UnknownPayment as unknown:
        raise ApiError(404, f"There is no '{unknown}'.", code="not_found") from unknown
    except NotPayable as state:
        raise ApiError(409, f"{state}.", code=state.code) from state
    except PaymentConflict as conflict:
        raise ApiError(409, f"{conflict}.", code="conflict") from conflict


async def payments_of(request: Request) -> PaymentService:
    parts = parts_of(request)
    guards = guards_of(parts.settings.ledger, parts.settings.tax)
    return PaymentService(parts.ledger, guards, parts.outside.clock)


Payments = Annotated[PaymentService, Depends(payments_of)]
