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
from billing.store.engine import Store
from gateway.api.admin_tenants import attempt
from gateway.api.cursors import cursor_of, key_of
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
Key = tuple[Any, ...]
_KINDS = {"day": int}
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
    page: str | None = Query(None, description="next_page of the page before"),
    format: Literal["json", "csv"] = "json",
) -> dict[str, Any] | Response:
    """Calls whose end was in the hours of the interval, by default the last thirty days and this
    hour, and the capacity of those hours. `fleet` is all of it, whatever the groups: its cost of
    goods and what was unallocated are its bill, as far as replicas have reported: `unrecorded_usd`
    is below zero by what calls have cost since then. By request the newest call comes first. As CSV
    the cursor of the next page is the header `x-sluice-next-page`.
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
    after = _read(page, group_by) if page is not None else None
    ledger = parts.ledger
    (fleet,) = await attempt(lambda: margins(ledger, from_us, to_us))
    if REQUEST in group_by:
        found = await attempt(lambda: _by_request(ledger, from_us, to_us, limit + 1, after))
    else:
        groups = [MarginBy(name) for name in group_by]
        found = await attempt(lambda: _by_groups(ledger, from_us, to_us, groups, after))
    shown = [row for _, row in found[:limit]]
    next_page = cursor_of(found[limit - 1][0]) if len(found) > limit else None
    if format == "csv":
        return _csv(shown, group_by, next_page)
    return {
        "object": "list",
        "from": at(from_us),
        "to": at(min(to_us, LAST_EPOCH_S * 1_000_000)),
        "fleet": {name: value for name, value in _row(fleet).items() if name != "group"},
        "data": shown,
        "has_more": next_page is not None,
        "next_page": next_page,
    }


def _by_request(
    ledger: Store, from_us: int, to_us: int, limit: int, after: Key | None
) -> list[tuple[Key, Row]]:
    before = None if after is None else (after[0], after[1])
    found = queries.calls_ended_in(ledger, from_us, to_us, limit, before=before)
    return [((ended_us, call.rid), _of_request(call)) for ended_us, call in found]


def _by_groups(
    ledger: Store, from_us: int, to_us: int, groups: Sequence[MarginBy], after: Key | None
) -> list[tuple[Key, Row]]:
    """In the order of their keys."""
    found = [(tuple(row.group.values()), row) for row in margins(ledger, from_us, to_us, groups)]
    return [(key, _row(row)) for key, row in found if after is None or key > after]


def _read(page: str, group_by: Sequence[str]) -> Key:
    """The key that the page before ended with: a call's is its end and its id."""
    kinds = [int, str] if REQUEST in group_by else [_KINDS.get(name, str) for name in group_by]
    key = key_of(page)
    if key is None or [type(value) for value in key] != kinds or not all(map(_may_be, key)):
        raise bad_request("page: Not a next_page of these groups.", "page")
    return tuple(key)


def _may_be(value: int | str) -> bool:
    """Whether a column can hold it: another one no database would compare."""
    if isinstance(value, int):
        return 0 <= value <= LAST_EPOCH_S * 1_000_000
    return value.isprintable()


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


def _csv(rows: Sequence[Row], group_by: Sequence[str], next_page: str | None) -> Response:
    """One line a group; columns of capacity where groups tell of it."""
    asked = ("request", "organization", "model", "pool") if REQUEST in group_by else group_by
    told = () if {REQUEST, "organization"} & set(group_by) else CAPACITY
    out = io.StringIO()
    writer = csv.DictWriter(out, [*asked, *EARNED, *told], extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow(row["group"] | row)
    headers = {"x-sluice-next-page": next_page} if next_page else {}
    return Response(out.getvalue(), media_type="text/csv", headers=headers)
