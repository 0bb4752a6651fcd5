"""`/console/top-ups`: money that became paid credit, its receipts, and what is given back of it."""

import asyncio
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.exc import SQLAlchemyError

from gateway.admin.payments.schemas import PayBody, RefundBody
from gateway.admin.top_ups.service import TopUps, TopUpService
from gateway.api.pages import PageRequest
from gateway.console.action_forms import RefusedAction, body_of, must_be_sure, read_action
from gateway.console.context import context_of
from gateway.console.forms import came_from_us
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.top_ups.rows import (
    BY_HAND,
    REFUND,
    TopUpsView,
    by_hand,
    top_up_view,
)
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.fields import Label

router = APIRouter(prefix="/console", include_in_schema=False)

HOME = "/console/top-ups"
TITLE = "Top-ups"
ROWS = 50
VALUE_CHARS_MAX = 200


@router.get("/top-ups")
async def show_top_ups(request: Request, top_ups: TopUps) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    try:
        return await _shown(request, top_ups)
    except ApiError:  # `after` is of no page
        return guarded(RedirectResponse(HOME, status_code=303))


@router.post(f"/top-ups/{BY_HAND}")
async def top_up_by_hand(request: Request, top_ups: TopUps) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    if not came_from_us(request):
        return guarded(RedirectResponse(HOME, status_code=303))
    form = dict(await read_action(request))
    organization = form.pop("organization", "")
    try:
        must_be_sure(form)
        await top_ups.top_up(organization, body_of(PayBody, form))
    except ApiError as why:
        typed = form | {"organization": organization}
        return await _shown(
            request, top_ups, RefusedAction(BY_HAND, why.message, why.status, typed)
        )
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    shown = urlencode({"organization": organization})
    return guarded(RedirectResponse(f"{HOME}?{shown}", status_code=303))


@router.post("/top-ups/{top_up_id}/refund")
async def refund_top_up(request: Request, top_ups: TopUps, top_up_id: Label) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    if not came_from_us(request):
        return guarded(RedirectResponse(HOME, status_code=303))
    form = await read_action(request)
    try:
        must_be_sure(form)
        await top_ups.refund(top_up_id, body_of(RefundBody, form))
    except ApiError as why:
        refused = RefusedAction(REFUND, why.message, why.status, form)
        return await _shown(request, top_ups, refused, top_up_id)
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    return guarded(RedirectResponse(f"{HOME}{_query(request)}", status_code=303))


async def _shown(
    request: Request, top_ups: TopUpService, refused: RefusedAction | None = None, of: str = ""
) -> Response:
    """Raises ApiError for an `after` of no page."""
    desk = context_of(request)
    organization = _value(request, "organization")
    after = request.query_params.get("after") or None
    try:
        rows = await top_ups.page(PageRequest(ROWS, after), organization or None)
        await asyncio.to_thread(desk.names.learn, {each.top_up["org"] for each in rows.data})
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    view = TopUpsView(
        rows=tuple(
            top_up_view(
                each,
                desk.names.of,
                refused if each.top_up["top_up_id"] == of else None,
                desk.now_us,
            )
            for each in rows.data
        ),
        organization=organization,
        by_hand=by_hand(organization, refused),
        query=_query(request),
        later=_later(organization, rows.after),
    )
    status, problem = (refused.status, refused.message) if refused else (200, "")
    return page("top_ups.html", status, view=view, problem=problem)


def _later(organization: str, after: str | None) -> str:
    fields = {"organization": organization} if organization else {}
    return f"{HOME}?{urlencode(fields | {'after': after})}" if after else ""


def _query(request: Request) -> str:
    fields = {name: _value(request, name) for name in ("organization", "after")}
    given = {name: value for name, value in fields.items() if value}
    return f"?{urlencode(given)}" if given else ""


def _value(request: Request, name: str) -> str:
    value = request.query_params.get(name, "").strip()[:VALUE_CHARS_MAX]
    return "".join([letter for letter in value if letter.isprintable()])
