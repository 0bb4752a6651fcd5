"""Statements as an administrator reads them, and each tenant its own."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import Response

from billing.db.engine import Store
from billing.documents.forms.csv_table import csv_bytes
from billing.documents.invoice_document import SELLER, party_named
from billing.documents.parties import party_of
from billing.documents.press import Press
from billing.parties.store import contact
from billing.statements.printed import StatementSheet, last_day
from billing.statements.statement import COLUMNS, Statement, rows_of_statement
from billing.statements.store import TooManyEntries, statement
from gateway.admin.documents.service import FileAnswer, FileKind, of_press
from gateway.admin.statements.schemas import StatementQuery
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.spans import DAYS_US
from gateway.errors import bad_request
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class StatementService:
    ledger: Store
    tenants: TenantStore
    press: Press
    clock: Clock

    async def read(self, organization: str, query: StatementQuery) -> Statement:
        """Raises ApiError: 404 for an unknown organization, 400 for a span that cannot be."""
        to_us = round(self.clock() * 1e6) if query.to_us is None else query.to_us
        from_us = max(0, to_us - DAYS_US) if query.from_us is None else query.from_us
        if from_us > to_us:
            raise bad_request("to: Must not be before from.", "to")

        def work() -> Statement:
            if self.tenants.one(Organization, organization) is None:
                raise NotThere(organization)
            return statement(self.ledger, organization, from_us, to_us)

        try:
            return await attempt(work)
        except TooManyEntries as wrong:
            raise bad_request(f"from: Ask for a shorter span: {wrong}.", "from") from wrong

    async def csv(self, organization: str, query: StatementQuery) -> Response:
        """Raises ApiError as `read` does."""
        rows = rows_of_statement(await self.read(organization, query))
        return Response(csv_bytes(COLUMNS, rows), media_type="text/csv; charset=utf-8")

    async def pdf(self, organization: str, query: StatementQuery) -> Response:
        """Raises ApiError as `read` does, and 503 where too many documents wait."""
        stated = await self.read(organization, query)
        sheet = await attempt(lambda: self._sheet(stated))
        content = await of_press(self.press.make_statement(sheet))
        name = f"statement-{last_day(stated).isoformat()}.pdf"
        hashed = sha256(content).hexdigest()
        return FileAnswer(FileKind.PDF, name, content, hashed, is_kept=False).response()

    def _sheet(self, stated: Statement) -> StatementSheet:
        """Named as the organization is billed today."""
        with self.ledger.read() as conn:
            billed = contact(conn, stated.org)
        if billed is not None:
            seller, buyer = party_of(billed[0], billed[0].iban), party_of(billed[1])
            return StatementSheet(stated, seller, buyer, billed[1].language)
        organization = self.tenants.one(Organization, stated.org)
        buyer = party_named(organization.name if organization else stated.org)
        return StatementSheet(stated, SELLER, buyer)


async def statements_of(request: Request) -> StatementService:
    parts = parts_of(request)
    return StatementService(parts.ledger, parts.tenants, parts.press, parts.outside.clock)


Statements = Annotated[StatementService, Depends(statements_of)]
