"""`/admin/v1/margins`: what was earned, what it cost us and what nobody used, as JSON or CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Query, Request, Response

from billing import queries
from billing.costs.margins import Margin, MarginBy, margins, whole_hours
from billing.money import usd
from billing.queries import UsageRecord
from billing.rollup import HOUR_US
from gateway.api.admin_tenants import attempt
from gateway.api.fields import LAST_EPOCH_S, EpochS
from gateway.api.needs import parts_of
from gateway.api.shapes import at
from gateway.errors import bad_request

router = APIRouter()

ROWS_MAX = 10_000
DAYS = 30
REQUEST = "request"
By = Literal["request", "organization", "model", "pool", "day"]
Row = dict[str, Any]
EARNED = ("requests", "revenue_usd", "cogs_usd", "margin_usd")
CAPACITY = (
    *("bill_usd", "unallocated_usd", "idle_usd", "cold_start_usd", "wasted_usd"),
    *("unrecorded_usd", "net_margin_usd"),
)


@router.get("/margins", response_model=None)
async def show_margins(
    request: Request,
    start_time: EpochS | None = Query(None, description="epoch seconds, in whole hours"),
    end_time: EpochS | None = Query(None, description="epoch seconds, exclusive, in whole hours"),
    group_by: list[By] = Query([]),
    limit: int = Query(1000, ge=1, le=ROWS_MAX, description="rows"),
    page: int = Query(0, ge=0, le=ROWS_MAX, description="next_page of the page before"),
    format: Literal["json", "csv"] = "json",
) -> dict[str, Any] | Response:
    """Calls whose end was in the hours of the interval, by default the last thirty days and this
    hour, and the capacity of those hours. `fleet` is all of it, whatever the groups: its cost of
    goods and what was unallocated are its bill. By request these are the newest calls, and pages
    go back 10,000 of them: those before by an earlier end.
    """
    parts = parts_of(request)
    now_us = round(parts.outside.clock() * 1e6)
    to_us = now_us + HOUR_US if end_time is None else end_time * 1_000_000
    from_us = to_us - DAYS * 24 * HOUR_US if start_time is None else start_time * 1_000_000
    if from_us > to_us:
        raise bad_request("end_time: Must not be before start_time.", "end_time")
    if len(set(group_by)) < len(group_by) or (REQUEST in group_by and len(group_by) > 1):
        raise bad_request("group_by: Each once, and requests by nothing else.", "group_by")
    from_us, to_us = whole_hours(max(0, from_us), to_us)
    ledger = parts.ledger
    (fleet,) = await attempt(lambda: margins(ledger, from_us, to_us))
    if list(group_by) == [REQUEST]:
        calls = await attempt(
            lambda: queries.recent_calls(ledger, limit + page + 1, before_us=to_us)
        )
        rows = [_of_request(call) for call in calls if call.ended_us >= from_us]
    else:
        groups = [MarginBy(name) for name in group_by]
        rows = [_row(row) for row in await attempt(lambda: margins(ledger, from_us, to_us, groups))]
    shown, next_page = rows[page : page + limit], page + limit
    more = len(rows) > next_page and next_page <= ROWS_MAX
    if format == "csv":
        return _csv(shown, group_by, next_page if more else None)
    return {
        "object": "list",
        "from": at(from_us),
        "to": at(min(to_us, LAST_EPOCH_S * 1_000_000)),
        "fleet": {name: value for name, value in _row(fleet).items() if name != "group"},
        "data": shown,
        "has_more": more,
        "next_page": next_page if more else None,
    }


def _row(margin: Margin) -> Row:
    group = dict(margin.group)
    if "day" in group:
        group["day"] = at(group["day"])
    row: Row = {
        "group": group,
        "requests": margin.requests,
        "revenue_usd": usd(margin.revenue_nanousd),
        "cogs_usd": usd(margin.cost_nanousd),
        "margin_usd": usd(margin.margin_nanousd),
    }
    capacity = margin.capacity
    if capacity is None:
        return row
    return row | {
        "bill_usd": usd(margin.bill_nanousd),
        "unallocated_usd": usd(margin.unallocated_nanousd),
        "idle_usd": usd(capacity.idle_nanousd),
        "cold_start_usd": usd(capacity.cold_start_nanousd),
        "wasted_usd": usd(capacity.wasted_nanousd),
        "unrecorded_usd": usd(margin.unrecorded_nanousd),
        "net_margin_usd": usd(margin.net_margin_nanousd),
        "replica_s": capacity.life_us / 1e6,
        "cold_start_s": capacity.cold_start_us / 1e6,
        "busy_s": capacity.busy_us / 1e6,
    }


def _of_request(call: UsageRecord) -> Row:
    group = {"request": call.rid, "organization": call.org, "model": call.model, "pool": call.pool}
    return {
        "group": group,
        "requests": 1,
        "revenue_usd": usd(call.amount_nanousd),
        "cogs_usd": usd(call.cost_nanousd),
        "margin_usd": usd(call.amount_nanousd - call.cost_nanousd),
    }


def _csv(rows: Sequence[Row], group_by: Sequence[str], next_page: int | None) -> Response:
    """One line a group; columns of capacity where groups tell of it."""
    asked = ("request", "organization", "model", "pool") if REQUEST in group_by else group_by
    told = () if {REQUEST, "organization"} & set(group_by) else CAPACITY
    out = io.StringIO()
    writer = csv.DictWriter(out, [*asked, *EARNED, *told], extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow(row["group"] | row)
    headers = {"x-sluice-next-page": str(next_page)} if next_page is not None else {}
    return Response(out.getvalue(), media_type="text/csv", headers=headers)
