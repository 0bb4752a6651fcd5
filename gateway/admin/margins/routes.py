"""`/admin/v1/margins`: what was earned, what it cost us and what nobody used, as JSON or CSV."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from gateway.admin.margins.schemas import Earnings, FleetMargin, MarginQuery, Margins
from gateway.admin.margins.service import REQUEST, AdminMargins, MarginRows
from gateway.api.spans import OR_CSV, csv_answer

router = APIRouter(prefix="/margins", tags=["margins"])


@router.get("", response_model=Margins, responses=OR_CSV)
async def show_margins(margins: AdminMargins, query: Annotated[MarginQuery, Query()]) -> Any:
    """Calls whose end was in the hours of the interval, by default the last thirty days and this
    hour, and the capacity of those hours. `fleet` is all of it, whatever the groups: its cost of
    goods and what was unallocated are its bill, as far as replicas have reported: `unrecorded_usd`
    is below zero by what calls have cost since then. By request the newest call comes first. As CSV
    the cursor of the next page is the header `x-sluice-next-page`.
    """
    rows = await margins.margins(query)
    return _csv(rows, query.group_by) if query.format == "csv" else rows


def _csv(rows: MarginRows, group_by: Sequence[str]) -> Response:
    """One line a group; columns of capacity where groups tell of it."""
    groups = ("request", "organization", "model", "pool") if REQUEST in group_by else group_by
    has_capacity = not {REQUEST, "organization"} & set(group_by)
    fields = (FleetMargin if has_capacity else Earnings).model_fields
    columns = [*groups, *(name for name in fields if not name.endswith("_s"))]
    lines = Margins.model_validate(rows).model_dump(mode="json")["data"]
    return csv_answer(columns, [row["group"] | row for row in lines], rows.after)
