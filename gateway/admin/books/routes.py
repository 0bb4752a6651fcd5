"""`/admin/v1/books`: the journal of a month, its closing, and receivables by age."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from gateway.admin.books.schemas import ClosedPeriodAnswer, ReceivableAnswer
from gateway.admin.books.service import Books
from gateway.admin.documents.schemas import CSV, answers
from gateway.api.pages import PagedBy100
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(prefix="/books", tags=["books"])

BEANCOUNT = "text/plain; charset=utf-8"


@router.get("/journal.csv", response_class=Response, responses=CSV)
async def csv_journal(books: Books, period: Label) -> Response:
    """One row a day, kind, organization and pair of accounts of a month, `YYYY-MM`."""
    return Response(await books.csv_journal(period), media_type="text/csv; charset=utf-8")


@router.get("/journal.beancount", response_class=Response, responses=answers("text/plain"))
async def beancount_journal(books: Books, period: Label) -> Response:
    """The same as a file that `bean-check` accepts."""
    return Response(await books.beancount_journal(period), media_type=BEANCOUNT)


@router.get("/periods", response_model=Page[ClosedPeriodAnswer])
async def closed_periods(books: Books, request: PagedBy100) -> Any:
    """Months whose books are closed."""
    return await books.closed(request)


@router.post("/periods/{period}/close", response_model=ClosedPeriodAnswer)
async def close_period(books: Books, period: Label) -> Any:
    """Nothing is posted to this month any more, nor to one before it, and no month is opened again.
    Again changes nothing. 409 `period_not_ended` until five minutes after its end."""
    return await books.close(period)


@router.get("/receivables", response_model=Page[ReceivableAnswer])
async def receivables(books: Books, request: PagedBy100) -> Any:
    """What is due of issued invoices, by organization and by how long it is overdue."""
    return await books.receivables(request)
