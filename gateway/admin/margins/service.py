"""What was earned, what it cost us and what nobody used, from the hourly sums."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from billing import queries
from billing.costs.margins import Margin, MarginBy, margins, whole_hours
from billing.db.engine import Store
from billing.usage.rollup import HOUR_US
from billing.usage.store import CallFilter
from billing.usage.tables import UsageRecord
from gateway.admin.margins.schemas import MarginQuery
from gateway.admin.use_cases import attempt
from gateway.api.cursors import cursor_of, key_of
from gateway.api.dependencies import parts_of
from gateway.api.spans import Cursor, SpanRows
from gateway.errors import bad_request
from gateway.instants import LAST_US
from routing.types import Clock

REQUEST = "request"

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class MarginRows(SpanRows[Margin]):
    """`fleet` is all of it, whatever the groups."""

    fleet: Margin


@dataclass(frozen=True, slots=True)
class MarginService:
    ledger: Store
    clock: Clock

    async def margins(self, query: MarginQuery) -> MarginRows:
        """By request the newest call comes first, else groups come in the order of their keys.
        Raises ApiError 400 for groups that make no sense and for a cursor of others."""
        span = query.span_us(round(self.clock() * 1e6) + HOUR_US)
        groups = query.group_by
        if len(set(groups)) < len(groups) or (REQUEST in groups and len(groups) > 1):
            raise bad_request("group_by: Each once, and requests by nothing else.", "group_by")
        from_us, to_us = whole_hours(max(0, span[0]), span[1])
        behind = _key(query.cursor, groups) if query.cursor else None
        (fleet,) = await attempt(lambda: margins(self.ledger, from_us, to_us))
        read = self._by_request if REQUEST in groups else self._by_group
        rows = await attempt(lambda: read(query, from_us, to_us, behind))
        rows_shown = rows[: query.limit]
        return MarginRows(
            from_us=from_us,
            to_us=min(to_us, LAST_US),
            data=[margin for _, margin in rows_shown],
            after=cursor_of(rows_shown[-1][0]) if len(rows) > query.limit else None,
            fleet=fleet,
        )

    def _by_request(
        self, query: MarginQuery, from_us: int, to_us: int, behind: Key | None
    ) -> list[tuple[Key, Margin]]:
        before = None if behind is None else (behind[0], behind[1])
        only = CallFilter(from_us=from_us, to_us=to_us)
        calls = queries.newest_calls(self.ledger, query.limit + 1, only, before=before)
        return [((ended_us, call.rid), _of_request(call)) for ended_us, call in calls]

    def _by_group(
        self, query: MarginQuery, from_us: int, to_us: int, behind: Key | None
    ) -> list[tuple[Key, Margin]]:
        by = [MarginBy(name) for name in query.group_by]
        rows = margins(self.ledger, from_us, to_us, by)
        keyed = [(tuple(margin.group.values()), margin) for margin in rows]
        return [(key, margin) for key, margin in keyed if behind is None or key > behind]


def _of_request(call: UsageRecord) -> Margin:
    group = {REQUEST: call.rid, "organization": call.org, "model": call.model, "pool": call.pool}
    return Margin(group, 1, call.amount_nanousd, call.cost_nanousd, None)


def _key(cursor: Cursor, groups: Sequence[str]) -> Key:
    """The key that the page before ended with: a call's is its end and its id."""
    of_groups = [int if name == "day" else str for name in groups]
    kinds = [int, str] if REQUEST in groups else of_groups
    key = key_of(cursor.text)
    if key is None or [type(value) for value in key] != kinds or not all(map(_may_be, key)):
        message = f"{cursor.parameter}: Not of a page of these groups."
        raise bad_request(message, cursor.parameter)
    return tuple(key)


def _may_be(value: int | str) -> bool:
    """Whether a column can hold it: another one no database would compare."""
    if isinstance(value, int):
        return 0 <= value <= LAST_US
    return value.isprintable()


async def margins_of(request: Request) -> MarginService:
    parts = parts_of(request)
    return MarginService(parts.ledger, parts.outside.clock)


AdminMargins = Annotated[MarginService, Depends(margins_of)]
