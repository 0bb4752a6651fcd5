"""Invoice runs as an administrator starts and follows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing.db.engine import Store
from billing.invoices import runs
from billing.invoices.runs import RunProgress, UnknownRun
from billing.periods import BadPeriod
from gateway.admin.invoice_runs.schemas import InvoiceRunBody
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import bad_request
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class InvoiceRunService:
    ledger: Store
    clock: Clock

    async def start(self, body: InvoiceRunBody) -> RunProgress:
        """Raises ApiError 400 for what is no month that has begun."""
        now_us, org = round(self.clock() * 1e6), body.organization or ""
        try:
            return await attempt(
                lambda: runs.start(self.ledger, body.period, now_us=now_us, org=org)
            )
        except BadPeriod as wrong:
            raise bad_request(str(wrong), "period") from wrong

    async def one(self, run_id: str) -> RunProgress:
        """Raises ApiError 404."""

        def read() -> RunProgress:
            try:
                return runs.one(self.ledger, run_id)
            except UnknownRun as unknown:
                raise NotThere(run_id) from unknown

        return await attempt(read)

    async def page(self, request: PageRequest) -> PageRows[RunProgress]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, RunProgress]]:
            after = None if behind is None else (behind[0], behind[1])
            found = runs.listed(self.ledger, after=after, limit=limit)
            return [((run.created_us, run.run_id), run) for run in found]

        return await attempt(lambda: read_page(request, Source((int, str), read)))


async def invoice_runs_of(request: Request) -> InvoiceRunService:
    parts = parts_of(request)
    return InvoiceRunService(parts.ledger, parts.outside.clock)


InvoiceRuns = Annotated[InvoiceRunService, Depends(invoice_runs_of)]
