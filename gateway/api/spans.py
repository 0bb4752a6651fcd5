"""Sums over a span of time: what may be asked of them, and their pages, as JSON or CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from fastapi import Response
from pydantic import BaseModel, Field

from gateway.api.fields import EpochS
from gateway.api.pages import BEHIND
from gateway.api.schemas import At, Item, Page
from gateway.errors import bad_request

ROWS_MAX = 10_000
DAYS_US = 30 * 24 * 3_600_000_000
"""Of a span that says no start."""
NEXT_PAGE = "x-sluice-next-page"
OR_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}}
}
"""The other answer of a route, as FastAPI's `responses`."""

Row = TypeVar("Row")


class Cursor(NamedTuple):
    """What a page goes on behind, and the parameter that it came in."""

    parameter: str
    text: str


class SpanQuery(BaseModel):
    start_time: EpochS | None = Field(None, description="epoch seconds, inclusive")
    end_time: EpochS | None = Field(None, description="epoch seconds, exclusive")
    limit: int = Field(1000, ge=1, le=ROWS_MAX, description="rows")
    after: str | None = Field(None, description=BEHIND)
    page: str | None = Field(None, description="the same as `after`")
    format: Literal["json", "csv"] = "json"

    def span_us(self, usual_end_us: int) -> tuple[int, int]:
        """Raises ApiError 400 for one that ends before it begins."""
        to_us = usual_end_us if self.end_time is None else self.end_time * 1_000_000
        from_us = to_us - DAYS_US if self.start_time is None else self.start_time * 1_000_000
        if from_us > to_us:
            raise bad_request("end_time: Must not be before start_time.", "end_time")
        return from_us, to_us

    @property
    def cursor(self) -> Cursor | None:
        if self.after is not None:
            return Cursor("after", self.after)
        return None if self.page is None else Cursor("page", self.page)


@dataclass(frozen=True, slots=True)
class SpanRows(Generic[Row]):
    from_us: int
    to_us: int
    data: Sequence[Row]
    after: str | None

    @property
    def next_page(self) -> str | None:
        return self.after

    @property
    def has_more(self) -> bool:
        return self.after is not None


class SpanPage(Page[Item], Generic[Item]):
    from_us: At = Field(serialization_alias="from")
    to_us: At = Field(serialization_alias="to")
    next_page: str | None = Field(description="the same as `after`")


def csv_answer(
    columns: Sequence[str], rows: Iterable[Mapping[str, Any]], next_page: str | None
) -> Response:
    """A line of names and one for each row."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    headers = {NEXT_PAGE: next_page} if next_page else {}
    return Response(out.getvalue(), media_type="text/csv", headers=headers)
