"""Calls that were refused, as the ledger's database has them for a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing import queries
from billing.db.engine import Store
from billing.refusals.refusal import Refusal
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page


@dataclass(frozen=True, slots=True)
class RefusalService:
    ledger: Store

    async def page(
        self,
        page: PageRequest,
        *,
        organization: str | None = None,
        reason: str | None = None,
        rule: str | None = None,
    ) -> PageRows[Refusal]:
        """The newest first, with these values."""
        filters = {"org": organization, "reason": reason, "rule": rule}
        equals = {name: value for name, value in filters.items() if value}

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Refusal]]:
            before = None if behind is None else (behind[0], behind[1])
            rows = queries.newest_refusals(self.ledger, limit, equals, before=before)
            return [((row.at_us, row.rid), row) for row in rows]

        return await attempt(lambda: read_page(page, Source((int, str), read)))


def refusals_of(request: Request) -> RefusalService:
    return RefusalService(parts_of(request).ledger)


Refusals = Annotated[RefusalService, Depends(refusals_of)]
