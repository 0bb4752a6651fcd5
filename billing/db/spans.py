"""Long tables, a part at a time. The parts are spans of request ids, which together hold every
one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, select, true

from billing.db.engine import Store
from billing.usage.store import EVENT


@dataclass(frozen=True, slots=True)
class Span:
    """Request ids above `after`, up to and including `upto`. None is no bound."""

    after: str | None = None
    upto: str | None = None

    def of(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """The condition that a column lies in the span. A row without a request id is in the first
        part."""
        bounds = []
        if self.after is not None:
            bounds.append(column > self.after)
        if self.upto is not None:
            within = column <= self.upto
            bounds.append(within if self.after is not None else within | column.is_(None))
        return and_(true(), *bounds)


def parts(store: Store, calls: int) -> Iterator[Span]:
    """Parts of so many calls each, computed as they are asked for. The last part has no end."""
    after = None
    while (upto := _end(store, after, calls)) is not None:
        yield Span(after, upto)
        after = upto
    yield Span(after)


def _end(store: Store, after: str | None, calls: int) -> str | None:
    ordered = select(EVENT.c.rid).order_by(EVENT.c.rid).offset(calls - 1).limit(1)
    with store.read() as conn:
        return conn.execute(ordered.where(Span(after).of(EVENT.c.rid))).scalar_one_or_none()
