"""`/admin/v1/usage`: usage by group, hour or day, as JSON or CSV, from the hourly sums."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Query, Request, Response

from billing import queries
from billing.money import usd
from billing.queries import GroupBy, UsageSum
from billing.rollup import HOUR_US
from gateway.api.admin_tenants import attempt
from gateway.api.buckets import Width
from gateway.api.cursors import cursor_of, key_of
from gateway.api.fields import LAST_EPOCH_S, EpochS, Label
from gateway.api.needs import parts_of
from gateway.api.shapes import at, usage_sum
from gateway.errors import ApiError, bad_request

router = APIRouter()

ROWS_MAX = 10_000
DAYS = 30
BUCKETS = {Width.HOUR: GroupBy.HOUR, Width.DAY: GroupBy.DAY}
Summed = Literal[Width.HOUR, Width.DAY]
Dimension = Literal[
    GroupBy.MODEL,
    GroupBy.KEY,
    GroupBy.PROJECT,
    GroupBy.ORG,
    GroupBy.TIER,
    GroupBy.BATCH,
    GroupBy.STATUS,
    GroupBy.POOL,
    GroupBy.DAY,
    GroupBy.HOUR,
]
"""Whatever there are sums by: a minute is summed from the log."""
INSTANT_US_MAX = LAST_EPOCH_S * 1_000_000
WHOLE = (GroupBy.DAY, GroupBy.HOUR)
COUNTS = (
    "requests",
    "input",
    "cached_input",
    "cache_write",
    "output",
    "reasoning",
    "gpu_ms",
)


@router.get("/usage", response_model=None)
async def usage(
    request: Request,
    organization: Label | None = None,
    start_time: EpochS | None = Query(None, description="epoch seconds, inclusive"),
    end_time: EpochS | None = Query(None, description="epoch seconds, exclusive"),
    group_by: list[Dimension] = Query([]),
    bucket_width: Summed | None = Query(None, description="a row for every hour or day, too"),
    limit: int = Query(1000, ge=1, le=ROWS_MAX, description="rows"),
    page: str | None = Query(None, description="next_page of the page before"),
    format: Literal["json", "csv"] = "json",
) -> dict[str, Any] | Response:
    """Calls whose end was in the interval, by default the last thirty days and this hour.

    As CSV the cursor of the next page is the header `x-sluice-next-page`.
    """
    parts = parts_of(request)
    now_us = round(parts.outside.clock() * 1e6)
    to_us = now_us - now_us % HOUR_US + HOUR_US if end_time is None else end_time * 1_000_000
    from_us = to_us - DAYS * 24 * HOUR_US if start_time is None else start_time * 1_000_000
    if from_us > to_us:
        raise bad_request("end_time: Must not be before start_time.", "end_time")
    groups = _groups(group_by, bucket_width)
    after = _read(page, groups) if page is not None else ()
    rows = await attempt(
        lambda: queries.usage_summary(
            parts.ledger, organization, from_us, to_us, groups, after=after, limit=limit + 1
        )
    )
    next_page = cursor_of(rows[limit - 1].group.values()) if len(rows) > limit else None
    shown = rows[:limit]
    if format == "csv":
        return _csv(shown, groups, bucket_width, next_page)
    return {
        "object": "list",
        "from": at(from_us),
        "to": at(to_us),
        "data": [_bucketed(row, bucket_width) for row in shown],
        "has_more": next_page is not None,
        "next_page": next_page,
    }


def _groups(group_by: Sequence[GroupBy], width: Width | None) -> list[GroupBy]:
    """The bucket first, so that pages go on in time."""
    groups = [*([BUCKETS[width]] if width else []), *group_by]
    if len(set(groups)) < len(groups):
        raise bad_request("group_by: The same dimension twice.", "group_by")
    return groups


def _bucketed(row: UsageSum, width: Width | None) -> dict[str, Any]:
    """The bucket of a row is its time, not one of its dimensions."""
    shown = usage_sum(row)
    if width is None:
        return shown
    group = dict(row.group)
    from_us = group.pop(BUCKETS[width])
    return shown | {
        "group": group,
        "from": at(from_us),
        "to": at(from_us + width.seconds * 1_000_000),
    }


def _csv(
    rows: Sequence[UsageSum], groups: Sequence[GroupBy], width: Width | None, next_page: str | None
) -> Response:
    dimensions = [group for group in groups if width is None or group != BUCKETS[width]]
    times = ["from", "to"] if width else []
    out = io.StringIO()
    writer = csv.DictWriter(out, [*times, *map(str, dimensions), *COUNTS, "cost_usd"])
    writer.writeheader()
    for row in rows:
        shown = _bucketed(row, width)
        writer.writerow(
            {name: shown[name] for name in times}
            | {str(name): row.group[name] for name in dimensions}
            | {name: getattr(row, name) for name in COUNTS}
            | {"cost_usd": usd(row.amount_nanousd)}
        )
    headers = {"x-sluice-next-page": next_page} if next_page else {}
    return Response(out.getvalue(), media_type="text/csv", headers=headers)


def _read(cursor: str, groups: Sequence[GroupBy]) -> list[Any]:
    """The group that the page before ended with."""
    values = key_of(cursor)
    if values is None or len(values) != len(groups):
        raise _no_cursor()
    if not all(_may_be(value, group) for value, group in zip(values, groups, strict=True)):
        raise _no_cursor()
    return values


def _may_be(value: object, group: GroupBy) -> bool:
    """Whether a column of that dimension can hold it: another one no database would compare."""
    if group in WHOLE:
        return type(value) is int and 0 <= value <= INSTANT_US_MAX
    if group is GroupBy.BATCH:
        return type(value) is bool
    return isinstance(value, str) and value.isprintable()


def _no_cursor() -> ApiError:
    return bad_request("page: Not a next_page of these groups.", "page")
