"""`/console/calls/{request_id}`: why one call went where it went, and what it cost."""

import asyncio

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from billing import queries
from billing.queries import CallRecord
from gateway.console.context import ConsoleContext, context_of
from gateway.console.formatting import instant, money
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.call.view import explain_view
from gateway.console.render import page
from gateway.decisions.booked import NotBooked

router = APIRouter(prefix="/console", include_in_schema=False)


@router.get("/calls/{request_id}")
async def explain(request: Request, request_id: str) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    desk = context_of(request)
    try:
        call = await desk.parts.booked_calls.whole(request_id)
        return await asyncio.to_thread(_explained, desk, call)
    except NotBooked:
        return await asyncio.to_thread(_not_booked, desk, request_id)
    except SQLAlchemyError:
        return page("missing.html", 503, rid=request_id, open=None, ledger_is_away=True)


def _explained(desk: ConsoleContext, call: CallRecord) -> Response:
    """Blocking."""
    used = call.usage
    desk.names.learn((used.org, used.project, used.key))
    book = desk.parts.catalog.prices
    prices = book.of_version(used.price_version, used.model, used.tier, used.batch)
    decision = desk.parts.decision_reader.explained(call)
    view = explain_view(call, decision, prices, desk.names.of, now_us=desk.now_us)
    return page("explain.html", view=view)


def _not_booked(desk: ConsoleContext, request_id: str) -> Response:
    """It may still run, or end this moment: the ledger is a little behind the gateway."""
    open_row = queries.open_call(desk.parts.ledger, request_id)
    if open_row is None:
        return page("missing.html", 404, rid=request_id, open=None, ledger_is_away=False)
    desk.names.learn((open_row["org"], open_row["key"]))
    still_open = {
        "organization": desk.names.of(open_row["org"]),
        "key": desk.names.of(open_row["key"]),
        "held": money(open_row["hold_nanousd"]),
        "admitted": instant(open_row["admitted_us"], desk.now_us),
    }
    return page("missing.html", rid=request_id, open=still_open, ledger_is_away=False)
