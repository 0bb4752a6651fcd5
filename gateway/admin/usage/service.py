"""Usage by group, hour or day, from the hourly sums."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from billing import queries
from billing.db.engine import Store
from billing.queries import GroupBy, UsageSum
from billing.usage.rollup import HOUR_US
from gateway.admin.usage.schemas import UsageSumQuery
from gateway.admin.use_cases import attempt
from gateway.api.cursors import cursor_of, key_of
from gateway.api.dependencies import parts_of
from gateway.api.spans import Cursor, SpanRows
from gateway.api.time_buckets import Width
from gateway.errors import ApiError, bad_request
from gateway.instants import LAST_US
from routing.types import Clock

BUCKETS = {Width.HOUR: GroupBy.HOUR, Width.DAY: GroupBy.DAY}
WHOLE = (GroupBy.DAY, GroupBy.HOUR)


class BucketSum(UsageSum):
    """The bucket of a row is its time, not one of its dimensions."""

    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class UsageSumService:
    ledger: Store
    clock: Clock

    async def sums(self, query: UsageSumQuery) -> SpanRows[UsageSum]:
        """Raises ApiError 400 for a dimension that comes twice and for a cursor of other groups."""
        now_us = round(self.clock() * 1e6)
        from_us, to_us = query.span_us(now_us - now_us % HOUR_US + HOUR_US)
        groups = _groups(query)
        behind = _key(query.cursor, groups) if query.cursor else ()
        rows = await attempt(
            lambda: queries.usage_summary(
                *(self.ledger, query.organization, from_us, to_us, groups),
                after=behind,
                limit=query.limit + 1,
            )
        )
        rows_shown = rows[: query.limit]
        return SpanRows(
            from_us=from_us,
            to_us=to_us,
            data=[_bucketed(row, query.bucket_width) for row in rows_shown],
            after=cursor_of(rows_shown[-1].group.values()) if len(rows) > query.limit else None,
        )


def _groups(query: UsageSumQuery) -> list[GroupBy]:
    """The bucket first, so that pages go on in time."""
    width = query.bucket_width
    groups = [*([BUCKETS[width]] if width else []), *query.group_by]
    if len(set(groups)) < len(groups):
        raise bad_request("group_by: The same dimension twice.", "group_by")
    return groups


def _bucketed(row: UsageSum, width: Width | None) -> UsageSum:
    if width is None:
        return row
    group = dict(row.group)
    from_us = group.pop(BUCKETS[width])
    span = {"from_us": from_us, "to_us": from_us + width.seconds * 1_000_000}
    return BucketSum.model_construct(**row.model_dump() | {"group": group} | span)


def _key(cursor: Cursor, groups: Sequence[GroupBy]) -> list[Any]:
    """The group that the page before ended with."""
    values = key_of(cursor.text)
    if values is None or len(values) != len(groups):
        raise _no_cursor(cursor)
    if not all(_may_be(value, group) for value, group in zip(values, groups, strict=True)):
        raise _no_cursor(cursor)
    return values


def _may_be(value: object, group: GroupBy) -> bool:
    """Whether a column of that dimension can hold it: another one no database would compare."""
    if group in WHOLE:
        return type(value) is int and 0 <= value <= LAST_US
    if group is GroupBy.BATCH:
        return type(value) is bool
    return isinstance(value, str) and value.isprintable()


def _no_cursor(cursor: Cursor) -> ApiError:
    message = f"{cursor.parameter}: Not of a page of these groups."
    return bad_request(message, cursor.parameter)


async def usage_of(request: Request) -> UsageSumService:
    parts = parts_of(request)
    return UsageSumService(parts.ledger, parts.outside.clock)


AdminUsage = Annotated[UsageSumService, Depends(usage_of)]
