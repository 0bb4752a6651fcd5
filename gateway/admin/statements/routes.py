"""`/admin/v1/organizations/{id}/statement`: what one owed, what changed that, and what it owes."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from gateway.admin.documents.schemas import CSV, PDF
from gateway.admin.statements.schemas import StatementAnswer, StatementQuery
from gateway.admin.statements.service import Statements
from gateway.fields import Label

router = APIRouter(prefix="/organizations/{organization_id}", tags=["invoices"])

OfSpan = Annotated[StatementQuery, Query()]


@router.get("/statement", response_model=StatementAnswer)
async def read_statement(statements: Statements, organization_id: Label, span: OfSpan) -> Any:
    """Documents and payments of a span by the instants at which they were booked."""
    return await statements.read(organization_id, span)


@router.get("/statement.csv", response_class=Response, responses=CSV)
async def csv_statement(statements: Statements, organization_id: Label, span: OfSpan) -> Response:
    """The same, one row an entry, between the opening and the closing balance."""
    return await statements.csv(organization_id, span)


@router.get("/statement.pdf", response_class=Response, responses=PDF)
async def pdf_statement(statements: Statements, organization_id: Label, span: OfSpan) -> Response:
    """The same as PDF/A-3a and PDF/UA-1, in the language of the billing profile."""
    return await statements.pdf(organization_id, span)
