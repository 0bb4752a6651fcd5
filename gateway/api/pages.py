"""Pages of lists: at most `limit` rows, and `after`, which says where the next page begins.

A list has one order for ever, that of the keys of its rows; a page goes on behind a key, so that
rows which come or go meanwhile neither repeat nor hide others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query
from sqlalchemy import ColumnElement
from sqlmodel import SQLModel

from gateway.api.cursors import cursor_of, key_of
from gateway.errors import bad_request
from gateway.fields import EXACT_MAX
from gateway.tenants.store import TenantStore

LIMIT_MAX = 1000
CURSOR_CHARS_MAX = 4096
BEHIND = "`after` of the page before"

Key = tuple[Any, ...]
Row = TypeVar("Row")
TableRow = TypeVar("TableRow", bound=SQLModel)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a caller wants of a list."""

    limit: int
    after: str | None


@dataclass(frozen=True, slots=True)
class Source(Generic[Row]):
    """Rows by the key that each has: `read` answers the first ones behind a key, in its order.
    `kinds` are the types of a key's parts."""

    kinds: tuple[type, ...]
    read: Callable[[Key | None, int], Sequence[tuple[Key, Row]]]


@dataclass(frozen=True, slots=True)
class PageRows(Generic[Row]):
    """A page as `gateway.api.schemas.Page` reads it."""

    data: Sequence[Row]
    after: str | None

    @property
    def has_more(self) -> bool:
        return self.after is not None


Id = TypeVar("Id", str, int)


@dataclass(frozen=True, slots=True)
class RowsById(Generic[Row, Id]):
    """A page of a list whose `after` is the id of a row."""

    data: Sequence[Row]
    last_id: Id | None
    has_more: bool

    @property
    def after(self) -> str | None:
        return str(self.last_id) if self.has_more else None


def rows_by_id(rows: Sequence[Row], limit: int, id_of: Callable[[Row], Id]) -> RowsById[Row, Id]:
    """`rows` are those of a page and, if there is one, the row behind it."""
    data = rows[:limit]
    return RowsById(data, id_of(data[-1]) if data else None, len(rows) > limit)


def pages_of(rows_usual: int) -> Any:
    """What a route depends on, with the number of rows where none is asked for."""

    def page_request(
        limit: int = Query(rows_usual, ge=1, le=LIMIT_MAX, description="rows"),
        after: str | None = Query(None, max_length=CURSOR_CHARS_MAX, description=BEHIND),
    ) -> PageRequest:
        return PageRequest(limit, after)

    return Depends(page_request)


Paged = Annotated[PageRequest, pages_of(LIMIT_MAX)]
PagedBy50 = Annotated[PageRequest, pages_of(50)]
PagedBy100 = Annotated[PageRequest, pages_of(100)]


def read_page(request: PageRequest, *sources: Source[Any]) -> PageRows[Any]:
    """The rows of all sources, one after another. Raises ApiError 400 for an `after` of no page."""
    place, behind = _start(request.after, sources)
    keyed_rows: list[tuple[Key, Any]] = []
    for number, source in enumerate(sources[place:], place):
        rows = source.read(behind, request.limit + 1 - len(keyed_rows))
        keyed_rows += [((number, *key), row) for key, row in rows]
        behind = None
        if len(keyed_rows) > request.limit:
            break
    rows_of_page = keyed_rows[: request.limit]
    is_last = len(keyed_rows) <= request.limit
    return PageRows(
        [row for _, row in rows_of_page], None if is_last else cursor_of(rows_of_page[-1][0])
    )


def of_table(
    store: TenantStore,
    kind: type[TableRow],
    equals: Mapping[str, object] | None = None,
    *where: ColumnElement[bool],
) -> Source[TableRow]:
    """The rows of a table of ours in the order of their primary keys, which are text."""
    names = store.key_of(kind)

    def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, TableRow]]:
        rows = store.page(kind, equals, *where, behind=behind, limit=limit)
        return [(tuple(getattr(row, name) for name in names), row) for row in rows]

    return Source((str,) * len(names), read)


def _start(after: str | None, sources: Sequence[Source[Any]]) -> tuple[int, Key | None]:
    if after is None:
        return 0, None
    place, *behind = key_of(after) or (None,)
    if type(place) is not int or not 0 <= place < len(sources):
        raise _no_page()
    kinds = sources[place].kinds
    if [type(part) for part in behind] != list(kinds) or not all(map(_may_be, behind)):
        raise _no_page()
    return place, tuple(behind)


def _may_be(part: int | str) -> bool:
    """Whether a column can hold it: another one no database would compare."""
    return abs(part) <= EXACT_MAX if isinstance(part, int) else "\0" not in part


def _no_page() -> Exception:
    return bad_request("after: Not an `after` of this list.", "after")
