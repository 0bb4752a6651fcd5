"""The files of an invoice: made once where it is issued, and from then on the same bytes for ever.

A draft has no e-invoice, and its files are made anew each time.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response

from billing.credit_notes import store as notes
from billing.credit_notes.crediting import result_of
from billing.db.engine import Store
from billing.documents import store as files
from billing.documents.document import Document, DocumentKind
from billing.documents.forms.csv_table import csv_bytes, csv_of
from billing.documents.forms.en16931 import NotAnEInvoice, Profile
from billing.documents.forms.focus import COLUMNS, focus_rows
from billing.documents.forms.json_text import json_of
from billing.documents.invoice_document import (
    NO_TERMS,
    SELLER,
    annexes_of,
    categories_of,
    document_of,
    party_named,
)
from billing.documents.note_document import note_document
from billing.documents.parties import NamedParties, parties_of
from billing.documents.press import Form, Press, PressBusy, PressFailed
from billing.documents.store import KeptFile
from billing.invoices.guards import Guards
from billing.invoices.months import invoice_by_id, list_invoices
from billing.invoices.result import InvoiceResult
from billing.periods import BadPeriod, period
from billing.settings import guards_of
from billing.top_ups import store as top_ups
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.errors import ApiError, bad_request
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock

INVOICES_AT_ONCE = 100
"""Of a FOCUS file, which is sent as it is made."""
COME_AGAIN_S = 2.0


class FileKind(StrEnum):
    JSON = "json"
    CSV = "csv"
    PDF = "pdf"
    XML = "xml"


MEDIA = {
    FileKind.JSON: "application/json",
    FileKind.CSV: "text/csv; charset=utf-8",
    FileKind.PDF: "application/pdf",
    FileKind.XML: "application/xml",
}


class Syntax(StrEnum):
    CII = "cii"
    UBL = "ubl"


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """A form of a document with its name."""

    kind: FileKind
    name: str
    content: bytes
    sha256: str
    is_kept: bool

    def response(self) -> Response:
        headers = {
            "content-disposition": f'attachment; filename="{self.name}"',
            "etag": f'"{self.sha256}"',
            "cache-control": "private, no-cache" if self.is_kept else "private, no-store",
        }
        return Response(self.content, headers=headers, media_type=MEDIA[self.kind])


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    ledger: Store
    tenants: TenantStore
    press: Press
    guards: Guards
    clock: Clock

    async def file(
        self,
        invoice_id: str,
        kind: FileKind,
        *,
        organization: str | None = None,
        syntax: Syntax = Syntax.CII,
        profile: Profile = Profile.EN16931,
    ) -> FileAnswer:
        """Raises ApiError: 404 for no invoice of this organization, 409 for an e-invoice that
        cannot be, 503 where too many wait."""
        document = await attempt(lambda: self._document(invoice_id, organization))
        is_issued = not document.heading.is_draft
        if kind is FileKind.XML and document.heading.kind is DocumentKind.RECEIPT:
            raise ApiError(
                409, f"'{invoice_id}' is a receipt, which has no e-invoice.", code="no_e_invoice"
            )
        if kind is FileKind.XML and not is_issued:
            raise ApiError(
                409, f"'{invoice_id}' is a draft: it has no number.", code="invoice_not_issued"
            )
        form = f"{syntax}.{profile}" if kind is FileKind.XML else kind.value
        stored = await attempt(lambda: self._kept(invoice_id, form)) if is_issued else None
        if stored is None:
            content = await self._made(document, kind, syntax, profile)
            if is_issued:
                stored = await attempt(lambda: self._keep(invoice_id, form, content))
            else:
                stored = KeptFile(sha256(content).hexdigest(), content)
        name = re.sub(r"[^A-Za-z0-9._-]", "-", document.heading.number or f"draft-{invoice_id}")
        return FileAnswer(kind, f"{name}.{kind}", stored.content, stored.sha256, is_issued)

    async def parties(self, invoice: dict[str, Any]) -> NamedParties | None:
        """Whom an invoice names: as they are frozen, or of a draft as they are now."""

        def work() -> NamedParties | None:
            with self.ledger.read() as conn:
                return parties_of(conn, invoice)

        return await attempt(work)

    async def focus(self, month: str, organization: str | None) -> AsyncIterator[bytes]:
        """FOCUS of the invoices of a month, void ones left out. Raises ApiError 400 for what is no
        month."""
        try:
            period(month)
        except BadPeriod as wrong:
            raise bad_request(str(wrong), "period") from wrong
        return self._focus(month, organization)

    async def _focus(self, month: str, organization: str | None) -> AsyncIterator[bytes]:
        yield csv_bytes(COLUMNS, [])
        after: tuple[str, str, int] | None = None
        while True:
            results = await asyncio.to_thread(self._invoices, month, organization, after)
            if results:
                yield await asyncio.to_thread(self._focus_rows, results)
            if len(results) < INVOICES_AT_ONCE:
                break
            last = results[-1].invoice
            after = (month, last["org"], last["revision"])
        yield await asyncio.to_thread(self._focus_notes, month, organization)

    def _focus_notes(self, month: str, organization: str | None) -> bytes:
        with self.ledger.read() as conn:
            found = notes.find(conn, org=organization, month=month)
        rows = (row for note in found for row in focus_rows(self._of_note(note)))
        return csv_bytes(COLUMNS, rows, header=False)

    def _focus_rows(self, results: Sequence[InvoiceResult]) -> bytes:
        documents = [
            self._of_result(result, has_annexes=False)
            for result in results
            if result.status != "void"
        ]
        rows = (row for document in documents for row in focus_rows(document))
        return csv_bytes(COLUMNS, rows, header=False)

    def _invoices(
        self, month: str, organization: str | None, after: tuple[str, str, int] | None
    ) -> list[InvoiceResult]:
        return list_invoices(
            self.ledger,
            now_us=self._now_us,
            org=organization,
            month=month,
            after=after,
            limit=INVOICES_AT_ONCE,
            guards=self.guards,
        )

    def _document(self, invoice_id: str, organization: str | None) -> Document:
        with self.ledger.read() as conn:
            if (top_up := top_ups.by_id(conn, invoice_id)) is not None:
                receipt = files.frozen(conn, invoice_id)
                if receipt is None or organization not in (None, top_up["org"]):
                    raise NotThere(invoice_id)
                return receipt
            note = notes.by_id(conn, invoice_id)
            of = note["invoice_id"] if note else invoice_id
            result = invoice_by_id(conn, of, self._now_us, self.guards)
        if result is None or organization not in (None, result.invoice["org"]):
            raise NotThere(invoice_id)
        document = self._of_note(note) if note else self._of_result(result, has_annexes=True)
        if document.heading.is_draft:
            return document
        with self.ledger.write() as conn:
            return files.freeze(conn, invoice_id, document, self._now_us)

    def _of_note(self, note: dict[str, Any]) -> Document:
        with self.ledger.read() as conn:
            frozen = files.frozen(conn, note["note_id"])
            credit_note = result_of(conn, note)
            taxes = notes.taxes_of(conn, note["note_id"])
            invoice = invoice_by_id(conn, note["invoice_id"], self._now_us)
        assert invoice is not None, "a foreign key says so"
        if frozen is not None:
            return frozen
        of = self._of_result(invoice, has_annexes=False)
        return note_document(note, credit_note.number, credit_note.lines, taxes, of)

    def _of_result(self, result: InvoiceResult, *, has_annexes: bool) -> Document:
        """As it is frozen, or as its rows stand."""
        invoice = result.invoice
        with self.ledger.read() as conn:
            frozen = files.frozen(conn, invoice["invoice_id"])
            named = parties_of(conn, invoice)
        if frozen is not None:
            return frozen
        organization = self.tenants.one(Organization, invoice["org"])
        span = (invoice["period_start_us"], invoice["period_end_us"])
        return document_of(
            result,
            seller=named.seller if named else SELLER,
            buyer=named.buyer
            if named
            else party_named(organization.name if organization else invoice["org"]),
            untaxed=named.untaxed if named else None,
            terms=named.terms if named else NO_TERMS,
            categories=categories_of(self.ledger, result.lines),
            annexes=annexes_of(self.ledger, invoice["org"], *span) if has_annexes else (),
        )

    async def _made(
        self, document: Document, kind: FileKind, syntax: Syntax, profile: Profile
    ) -> bytes:
        match kind:
            case FileKind.JSON:
                return await asyncio.to_thread(json_of, document)
            case FileKind.CSV:
                return await asyncio.to_thread(csv_of, document)
            case FileKind.PDF:
                return await of_press(self.press.make(Form.PDF, document))
            case FileKind.XML:
                return await of_press(self.press.make(Form(syntax.value), document, profile))

    def _kept(self, invoice_id: str, form: str) -> KeptFile | None:
        with self.ledger.read() as conn:
            return files.kept(conn, invoice_id, form)

    def _keep(self, invoice_id: str, form: str, content: bytes) -> KeptFile:
        with self.ledger.write() as conn:
            return files.keep(conn, invoice_id, form, content, self._now_us)

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


async def of_press(content: Awaitable[bytes]) -> bytes:
    """What the press makes. Raises ApiError: 409 for an e-invoice that cannot be, 503 for what was
    not made."""
    try:
        return await content
    except NotAnEInvoice as lacking:
        raise ApiError(409, f"{lacking}.", code="e_invoice_incomplete") from lacking
    except (PressBusy, PressFailed) as failure:
        raise ApiError(
            503,
            f"The document was not made: {failure}",
            type="server_error",
            code="document_not_made",
            retry_after_s=COME_AGAIN_S,
        ) from failure


async def files_of(request: Request) -> DocumentFiles:
    parts = parts_of(request)
    guards = guards_of(parts.settings.ledger, parts.settings.tax)
    return DocumentFiles(parts.ledger, parts.tenants, parts.press, guards, parts.outside.clock)


Files = Annotated[DocumentFiles, Depends(files_of)]
