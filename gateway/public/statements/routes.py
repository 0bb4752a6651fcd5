"""`GET /v1/organization/statement`: a tenant's own statement of account."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from gateway.admin.documents.schemas import CSV, PDF
from gateway.admin.statements.routes import OfSpan
from gateway.admin.statements.schemas import StatementAnswer
from gateway.admin.statements.service import Statements
from gateway.api.dependencies import Caller

router = APIRouter(prefix="/v1/organization", tags=["invoices"])


@router.get("/statement", response_model=StatementAnswer)
async def own_statement(statements: Statements, span: OfSpan, caller: Caller) -> Any:
    """Documents and payments of a span by the instants at which they were booked."""
    return await statements.read(caller.organization, span)


@router.get("/statement.csv", response_class=Response, responses=CSV)
async def own_csv_statement(statements: Statements, span: OfSpan, caller: Caller) -> Response:
    """The same, one row an entry, between the opening and the closing balance."""
    return await statements.csv(caller.organization, span)


@router.get("/statement.pdf", response_class=Response, responses=PDF)
async def own_pdf_statement(statements: Statements, span: OfSpan, caller: Caller) -> Response:
    """The same as PDF/A-3a and PDF/UA-1, in the language of the billing profile."""
    return await statements.pdf(caller.organization, span)
