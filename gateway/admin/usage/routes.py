"""`/admin/v1/usage`: usage by group, hour or day, as JSON or CSV, from the hourly sums."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from billing.money import usd
from billing.queries import UsageSum
from gateway.admin.usage.schemas import UsageSumQuery, UsageSums
from gateway.admin.usage.service import AdminUsage, BucketSum
from gateway.api.spans import OR_CSV, SpanRows, csv_answer
from gateway.instants import iso

router = APIRouter(prefix="/usage", tags=["usage"])

COUNTS = (
    *("requests", "input", "cached_input", "cache_write", "output", "reasoning", "gpu_ms"),
    "units",
)


@router.get("", response_model=UsageSums, responses=OR_CSV)
async def usage(usage: AdminUsage, query: Annotated[UsageSumQuery, Query()]) -> Any:
    """Calls whose end was in the interval, by default the last thirty days and this hour.

    As CSV the cursor of the next page is the header `x-sluice-next-page`.
    """
    rows = await usage.sums(query)
    return _csv(rows, query) if query.format == "csv" else rows


def _csv(rows: SpanRows[UsageSum], query: UsageSumQuery) -> Response:
    times = ["from", "to"] if query.bucket_width else []
    columns = [*times, *map(str, query.group_by), *COUNTS, "cost_usd"]
    return csv_answer(columns, map(_line, rows.data), rows.after)


def _line(row: UsageSum) -> dict[str, Any]:
    line = {name: getattr(row, name) for name in COUNTS} | row.group
    line["cost_usd"] = usd(row.amount_nanousd)
    if isinstance(row, BucketSum):
        line |= {"from": iso(row.from_us), "to": iso(row.to_us)}
    return line
