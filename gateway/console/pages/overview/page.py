"""`/console`: pools, last calls, spend and latencies, as one page and as the part that is live.

What is in memory is always shown; what stands in the ledger is shown while its database answers.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from billing import queries
from billing.queries import DecidedCall, GroupBy, Timing, UsageSum
from gateway.catalog.fleet import PublishedPool
from gateway.console.breakers import BreakerRow, breaker_rows
from gateway.console.calls import CallRow, call_rows
from gateway.console.context import ConsoleContext, context_of
from gateway.console.formatting import DisplayTime, instant
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.overview.latency import LastHour, hour_start_us, last_hour
from gateway.console.pages.overview.pools import FleetView, Intent, fleet_view
from gateway.console.pages.overview.spend import SpendView, days_of, spend_view
from gateway.console.render import guarded, page
from routing.types import Task

router = APIRouter(prefix="/console", include_in_schema=False)

CALLS_SHOWN = 25
TIMINGS_MAX = 5000
WANTED_CHARS_MAX = 200
_HOST = re.compile(r"[A-Za-z0-9.\-]+(:[0-9]{1,5})?|\[[0-9a-fA-F:]+\](:[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Booked:
    """What the ledger has to say."""

    calls: tuple[CallRow, ...]
    spend: SpendView
    hour: LastHour


@dataclass(frozen=True, slots=True)
class Overview:
    at: DisplayTime
    fleet: FleetView
    open_calls: int
    left_alone: tuple[BreakerRow, ...]
    """What calls leave alone just now."""
    booked: Booked | None
    """None while the ledger's database does not answer."""
    base_url: str
    model: str


@router.get("")
async def overview(request: Request) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    return await asyncio.to_thread(page, "overview.html", view=await look(request))


@router.get("/live")
async def live(request: Request) -> Response:
    """The part of the page that changes, for the script that puts it in place."""
    if not await is_signed_in(request):
        return guarded(Response(status_code=401))
    return await asyncio.to_thread(page, "live.html", view=await look(request))


async def look(request: Request) -> Overview:
    desk = context_of(request)
    parts = desk.parts
    models = [m for m in parts.catalog.catalog.models.values() if m.task is Task.GENERATE]
    return Overview(
        at=instant(desk.now_us, desk.now_us),
        fleet=fleet_view(
            parts.fleet.snapshot(),
            _intents(parts.fleet.published),
            parts.observed.faults.last,
            age_s=parts.fleet.age_s,
        ),
        open_calls=len(parts.accounts.open),
        left_alone=breaker_rows(parts.breakers.by_scope, desk.now_us / 1e6),
        booked=await _booked(desk, _wanted(request)),
        base_url=_base_url(request),
        model=min(models, key=lambda model: model.size_rank).name if models else "",
    )


def _wanted(request: Request) -> str:
    """What organizations are looked for, by a part of their name or id."""
    return request.query_params.get("organization", "").strip()[:WANTED_CHARS_MAX]


async def _booked(desk: ConsoleContext, search: str) -> Booked | None:
    now_us, ledger = desk.now_us, desk.parts.ledger
    days, hour_us = days_of(now_us), hour_start_us(now_us)
    try:
        calls, today, earlier, timings = await asyncio.gather(
            desk.calls.get(CALLS_SHOWN, lambda: queries.recent_decided(ledger, CALLS_SHOWN)),
            desk.today.get(
                days,
                lambda: queries.usage_summary(
                    ledger, None, days.today_us, days.end_us, [GroupBy.ORG]
                ),
            ),
            desk.earlier.get(
                days,
                lambda: queries.usage_summary(
                    ledger, None, days.month_us, days.today_us, [GroupBy.ORG]
                ),
            ),
            desk.timings.get(
                hour_us, lambda: queries.timings(ledger, hour_us, days.end_us, TIMINGS_MAX)
            ),
        )
        return await asyncio.to_thread(_shown, desk, search, now_us, calls, today, earlier, timings)
    except SQLAlchemyError:
        return None


def _shown(
    desk: ConsoleContext,
    search: str,
    now_us: int,
    calls: Sequence[DecidedCall],
    today: Sequence[UsageSum],
    earlier: Sequence[UsageSum],
    timings: Sequence[Timing],
) -> Booked:
    """Blocking: it may look up names, and thousands of timings are sorted."""
    desk.names.learn(
        {call.usage.org for call in calls}
        | {call.usage.key for call in calls}
        | {row.group["org"] for row in [*today, *earlier]}
    )
    return Booked(
        calls=call_rows(calls, desk.names.of, desk.parts.decision_reader.explained, now_us=now_us),
        spend=spend_view(
            earlier,
            today,
            desk.names.of,
            month_name=days_of(now_us).month_name,
            search=search,
        ),
        hour=last_hour(timings, now_us=now_us, read_max=TIMINGS_MAX),
    )


def _intents(published: Sequence[PublishedPool]) -> Mapping[str, Intent]:
    return {pool.name: Intent(pool.target, pool.reason, pool.terms) for pool in published}


def _base_url(request: Request) -> str:
    """Where the browser found us, if it is a name that a shell takes as it stands."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        host = "127.0.0.1:8080"
    return f"{request.url.scheme}://{host}"
