"""Statements as an administrator reads them, and each tenant its own."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import Response

from billing.db.engine import Store
from billing.documents.forms.csv_table import csv_bytes
from billing.statements.statement import COLUMNS, Statement, rows_of_statement
from billing.statements.store import TooManyEntries, statement
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


async def statements_of(request: Request) -> StatementService:
    parts = parts_of(request)
    return StatementService(parts.ledger, parts.tenants, parts.outside.clock)


Statements = Annotated[StatementService, Depends(statements_of)]
