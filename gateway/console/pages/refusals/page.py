"""`/console/refusals`: calls that were refused, the newest first."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.exc import SQLAlchemyError

from billing.refusals.refusal import Refusal
from gateway.admin.refusals.service import Refusals
from gateway.api.pages import PageRequest
from gateway.console.context import ConsoleContext, context_of
from gateway.console.formatting import since
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.refusals.rows import RefusalView, reason_words, refusal_views
from gateway.console.render import guarded, page
from gateway.decisions.refusals import TurnedAway
from gateway.errors import ApiError
from routing.types import RefusalKind

router = APIRouter(prefix="/console", include_in_schema=False)

HOME = "/console/refusals"
ROWS = 50
VALUE_CHARS_MAX = 200
FILTERS = ("organization", "reason", "rule")
REASONS = tuple([(each.value, reason_words(each.value)) for each in (*RefusalKind, *TurnedAway)])


@dataclass(frozen=True, slots=True)
class RefusalsView:
    rows: tuple[RefusalView, ...]
    filters: Mapping[str, str]
    """The value of each of FILTERS, empty where all are listed."""
    reasons: tuple[tuple[str, str], ...]
    organizations: tuple[tuple[str, str], ...]
    """Ids with names: those that stand on the page."""
    earlier: str
    """Where the next page is."""
    is_first: bool
    keep: str
    """For how long a row is kept."""


@router.get("/refusals")
async def refusals(request: Request, service: Refusals, after: str | None = None) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    desk = context_of(request)
    filters = {name: _value(request, name) for name in FILTERS}
    try:
        rows = await service.page(PageRequest(ROWS, after), **filters)
        await asyncio.to_thread(desk.names.learn, _ids(rows.data))
    except SQLAlchemyError:
        return page("away.html", 503, title="Refused calls")
    except ApiError:  # `after` is of no page
        return guarded(RedirectResponse(HOME, status_code=303))
    view = _view(desk, rows.data, filters, rows.after, is_first=after is None)
    return page("refusals.html", view=view)


def _value(request: Request, name: str) -> str:
    value = request.query_params.get(name, "").strip()[:VALUE_CHARS_MAX]
    return "".join([letter for letter in value if letter.isprintable()])


def _ids(rows: Sequence[Refusal]) -> set[str]:
    return {row.org for row in rows} | {row.key for row in rows}


def _view(
    desk: ConsoleContext,
    rows: Sequence[Refusal],
    filters: Mapping[str, str],
    after: str | None,
    *,
    is_first: bool,
) -> RefusalsView:
    fields = {name: value for name, value in filters.items() if value}
    organizations = dict.fromkeys([row.org for row in rows])
    keep_s = desk.parts.settings.ledger.refusal_keep_s
    return RefusalsView(
        rows=refusal_views(rows, desk.names.of, now_us=desk.now_us),
        filters=filters,
        reasons=REASONS,
        organizations=tuple([(each, desk.names.of(each)) for each in organizations]),
        earlier=f"{HOME}?{urlencode(fields | {'after': after})}" if after else "",
        is_first=is_first,
        keep=since(round(keep_s * 1e6)),
    )
