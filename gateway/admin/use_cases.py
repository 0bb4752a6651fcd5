"""What the use cases of an administrator share: they run beside the event loop, their named
failures become 404 and 409, and each change is one transaction with its audit row.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlmodel import Session, SQLModel

from billing.ledger.closed import PeriodClosed
from gateway.api.pages import PageRequest, PageRows, of_table, read_page
from gateway.errors import ApiError
from gateway.parts import Parts
from gateway.tenants.store import Conflict, Scoped, TenantStore
from gateway.tenants.tables import ApiKey, Audit, Organization, Project
from routing.types import Clock

ADMIN = "admin"
"""One admin key has no names behind it: this one stands in every audit row."""
OWNERS: dict[str, type[Organization] | type[Project] | type[ApiKey]] = {
    "org": Organization,
    "project": Project,
    "key": ApiKey,
}
Result = TypeVar("Result")
Row = TypeVar("Row", bound=SQLModel)


class NotThere(LookupError):
    """The object that was named does not exist."""


async def attempt(work: Callable[[], Result]) -> Result:
    """Run a blocking use case off the event loop; its named failures become 404 and 409."""
    try:
        return await asyncio.to_thread(work)
    except NotThere as missing:
        raise ApiError(404, f"There is no '{missing.args[0]}'.", code="not_found") from missing
    except Conflict as conflict:
        raise ApiError(409, str(conflict), code="conflict") from conflict
    except PeriodClosed as closed:
        raise ApiError(409, str(closed), code="period_closed") from closed


@dataclass(frozen=True, slots=True)
class AdminStore:
    """The store of tenants as an administrator reads and changes it. Raises ApiError: 404 for
    NotThere, 409 for Conflict. After each change `forget` is called: keys are looked up anew."""

    tenants: TenantStore
    clock: Clock
    forget: Callable[[], None]

    async def change(
        self,
        action: str,
        name: str | Callable[[Row], str],
        work: Callable[[Session], Row],
        /,
        **detail: Any,
    ) -> Row:
        """Change the object of that name, which a new row may give; `detail` goes to the audit
        row."""
        audit = Audit(at_us=self.now_us, actor=ADMIN, action=action, object="", detail=detail)

        def named(session: Session) -> Row:
            row = work(session)
            audit.object = name if isinstance(name, str) else name(row)
            return row

        row = await attempt(lambda: self.tenants.change(audit, named))
        self.forget()
        return row

    async def page(
        self, request: PageRequest, *kinds: type[Row], equals: Mapping[str, object] | None = None
    ) -> PageRows[Row]:
        """The rows of these tables, one after another."""
        sources = [of_table(self.tenants, kind, equals) for kind in kinds]
        return await attempt(lambda: read_page(request, *sources))

    @property
    def now_us(self) -> int:
        return round(self.clock() * 1e6)


def admin_store(parts: Parts) -> AdminStore:
    return AdminStore(parts.tenants, parts.outside.clock, parts.keys.forget)


def must_get(session: Session, kind: type[Row], key: str | tuple[str, ...]) -> Row:
    """Raises NotThere."""
    row = session.get(kind, key)
    if row is None:
        raise NotThere(key if isinstance(key, str) else "/".join(key))
    return row


def must_get_owner(session: Session, scope: str) -> None:
    """Raises NotThere for a scope whose organization, project or key does not exist."""
    kind, _, object_id = scope.partition(":")
    if kind not in OWNERS:
        raise NotThere(scope)
    must_get(session, OWNERS[kind], object_id)


def changing(kind: type[Row], key: str, columns: Mapping[str, Any]) -> Callable[[Session], Row]:
    """Work that changes some columns of a row that exists. Raises NotThere."""

    def work(session: Session) -> Row:
        row = must_get(session, kind, key)
        row.sqlmodel_update(dict(columns))
        session.add(row)
        return row

    return work


def updating(
    kind: type[Scoped], scope: str, columns: Mapping[str, Any]
) -> Callable[[Session], Scoped]:
    """Work that changes some columns of the one row that a scope has, or will have. Raises
    NotThere."""

    def work(session: Session) -> Scoped:
        must_get_owner(session, scope)
        row = session.get(kind, scope) or kind(scope=scope)
        row.sqlmodel_update(dict(columns))
        session.add(row)
        return row

    return work
