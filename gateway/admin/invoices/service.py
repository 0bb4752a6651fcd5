"""Invoices as an administrator makes and reads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any

from fastapi import Depends, Request

from billing.charges.trace import line_transfers
from billing.db.engine import Store
from billing.dunning.steps import DunningStep
from billing.history.event import HistoryEvent
from billing.history.history import ComingStep, InvoiceHistory, history_of
from billing.invoices import life, one_off
from billing.invoices import store as rows
from billing.invoices.guards import Guards
from billing.invoices.months import invoice_named, list_invoices, run_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.store import UnknownInvoice
from billing.invoices.voids import NotIssued, WrongInvoiceStatus, void
from billing.periods import BadPeriod
from billing.settings import guards_of
from gateway.admin.invoices.schemas import OneOffBody
from gateway.admin.use_cases import ADMIN, NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import ApiError, bad_request
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class HistoryRows(PageRows[HistoryEvent]):
    """A page of a history, and what comes after all of it."""

    next_dunning_step: ComingStep | None


@dataclass(frozen=True, slots=True)
class InvoiceService:
    ledger: Store
    tenants: TenantStore
    series: str
    grace_us: int
    guards: Guards
    dunning: Sequence[DunningStep]
    clock: Clock

    async def one_off(self, body: OneOffBody) -> InvoiceResult:
        """Raises ApiError 404 for an unknown organization, 400 for a line that costs nothing."""
        now_us = self._now_us
        items = [
            one_off.Item(each.description, each.quantity, each.unit_price_usd)
            for each in body.lines
        ]

        def work() -> InvoiceResult:
            if self.tenants.one(Organization, body.organization) is None:
                raise NotThere(body.organization)
            return one_off.draft(self.ledger, body.organization, items, now_us=now_us)

        try:
            return await attempt(work)
        except one_off.BadItem as wrong:
            raise bad_request(str(wrong), "lines") from wrong

    async def run(self, period: str | None, organization: str | None) -> Sequence[InvoiceResult]:
        """Raises ApiError 400 for what is no month."""
        if period is None:
            raise bad_request("A run needs a month, a one-off invoice a body.", "period")
        try:
            return await attempt(
                lambda: run_invoices(
                    *(self.ledger, period),
                    now_us=self._now_us,
                    series=self.series,
                    org=organization,
                    grace_us=self.grace_us,
                    guards=self.guards,
                )
            )
        except BadPeriod as wrong:
            raise bad_request(str(wrong), "period") from wrong

    async def read(self, name: str) -> InvoiceResult:
        """By its id or its number. Raises ApiError 404."""

        def work() -> InvoiceResult:
            with self.ledger.read() as conn:
                result = invoice_named(conn, name, self._now_us, self.guards)
            if result is None:
                raise NotThere(name)
            return result

        return await attempt(work)

    async def history(self, name: str, request: PageRequest) -> HistoryRows:
        """By its id or its number. Raises ApiError 404."""

        def work() -> HistoryRows:
            history = self._history(name)

            def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, HistoryEvent]]:
                keyed = [(event.key, event) for event in history.events]
                return [each for each in keyed if behind is None or each[0] > behind][:limit]

            found = read_page(request, Source((int, str), read))
            return HistoryRows(found.data, found.after, history.coming)

        return await attempt(work)

    def _history(self, name: str) -> InvoiceHistory:
        with self.ledger.read() as conn:
            result = invoice_named(conn, name, self._now_us, self.guards)
            if result is None:
                raise NotThere(name)
            return history_of(conn, result, self.dunning)

    async def calls(
        self, invoice_id: str, seq: int, request: PageRequest
    ) -> PageRows[Mapping[str, Any]]:
        """Raises ApiError 404 for no such line."""

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Mapping[str, Any]]]:
            after = None if behind is None else (behind[0], behind[1])
            links = line_transfers(self.ledger, invoice_id, seq, after=after, limit=limit)
            key = itemgetter("booked_us", "transfer_id")
            return [(key(each), each) for each in links]

        def page() -> PageRows[Mapping[str, Any]]:
            with self.ledger.read() as conn:
                if rows.line(conn, invoice_id, seq) is None:
                    raise NotThere(f"{invoice_id} line {seq}")
            return read_page(request, Source((int, str), read))

        return await attempt(page)

    async def page(
        self, request: PageRequest, organization: str | None, period: str | None
    ) -> PageRows[InvoiceResult]:
        """By month, organization and revision."""
        now_us = self._now_us

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, InvoiceResult]]:
            after = None if behind is None else (behind[0], behind[1], behind[2])
            results = list_invoices(
                self.ledger,
                now_us=now_us,
                org=organization,
                month=period,
                after=after,
                limit=limit,
                guards=self.guards,
            )
            key = itemgetter("period", "org", "revision")
            return [(key(each.invoice), each) for each in results]

        return await attempt(lambda: read_page(request, Source((str, str, int), read)))

    async def void(self, invoice_id: str, reason: str) -> InvoiceResult:
        return await self._changed(void, invoice_id, reason=reason)

    async def hold(self, invoice_id: str, reason: str) -> InvoiceResult:
        return await self._changed(life.hold, invoice_id, reason=reason, guards=self.guards)

    async def approve(self, invoice_id: str) -> InvoiceResult:
        return await self._changed(life.approve, invoice_id, guards=self.guards)

    async def issue(self, invoice_id: str) -> InvoiceResult:
        return await self._changed(life.issue, invoice_id, series=self.series, guards=self.guards)

    async def write_off(self, invoice_id: str, reason: str) -> InvoiceResult:
        return await self._changed(life.write_off, invoice_id, reason=reason)

    async def _changed(
        self, change: Callable[..., InvoiceResult], invoice_id: str, **words: Any
    ) -> InvoiceResult:
        """Raises ApiError 404 for an unknown invoice, 409 where its status does not allow it."""
        now_us = self._now_us
        try:
            return await attempt(
                lambda: change(self.ledger, invoice_id, by=ADMIN, now_us=now_us, **words)
            )
        except UnknownInvoice as unknown:
            raise ApiError(404, f"There is no '{invoice_id}'.", code="not_found") from unknown
        except NotIssued as draft:
            raise ApiError(409, f"{draft}: it has no number.", code="invoice_not_issued") from draft
        except WrongInvoiceStatus as wrong:
            message = f"'{invoice_id}' stays as it is: {wrong}."
            raise ApiError(409, message, code="invoice_status") from wrong

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


async def invoices_of(request: Request) -> InvoiceService:
    parts = parts_of(request)
    settings = parts.settings.ledger
    return InvoiceService(
        *(parts.ledger, parts.tenants),
        settings.invoice_series,
        settings.invoice_grace_us,
        guards_of(settings, parts.settings.tax),
        [entry.as_step for entry in parts.settings.dunning],
        parts.outside.clock,
    )


Invoices = Annotated[InvoiceService, Depends(invoices_of)]
