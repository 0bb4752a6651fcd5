"""Bills of providers as an administrator compares and posts them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing.bills import store as bills
from billing.bills.bill import BadBill
from billing.bills.reconciliation import Reconciliation, posted_bill, reconcile
from billing.db.engine import Store
from gateway.admin.reconciliations.schemas import ReconciliationBody
from gateway.admin.use_cases import ADMIN, NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.catalog.tables import PoolRow
from gateway.errors import bad_request
from gateway.tenants.store import TenantStore
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class ReconciliationService:
    """Raises ApiError: 404 for a provider that no pool ever named and for a bill that is not there,
    400 for a file that is no bill."""

    tenants: TenantStore
    ledger: Store
    clock: Clock

    async def reconcile(self, provider: str, body: ReconciliationBody) -> Reconciliation:
        def work() -> Reconciliation:
            return reconcile(
                self.ledger,
                provider,
                body.file,
                models=self._models(provider),
                now_us=round(self.clock() * 1e6),
                by=ADMIN,
                dry_run=body.dry_run,
            )

        try:
            return await attempt(work)
        except BadBill as wrong:
            raise bad_request(f"file: {wrong}", "file") from wrong

    async def one(self, provider: str, digest: str) -> Reconciliation:
        def read() -> Reconciliation:
            with self.ledger.read() as conn:
                bill = posted_bill(conn, provider, digest)
            if bill is None:
                raise NotThere(digest)
            return bill

        return await attempt(read)

    async def page(self, provider: str, request: PageRequest) -> PageRows[Reconciliation]:
        """The newest first."""

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Reconciliation]]:
            with self.ledger.read() as conn:
                names = bills.digests(conn, provider)
                if behind is not None and behind[0] not in names:
                    raise bad_request("after: Not an `after` of this list.", "after")
                left = names if behind is None else names[names.index(behind[0]) + 1 :]
                rows = [(name, posted_bill(conn, provider, name)) for name in left[:limit]]
            return [((name,), row) for name, row in rows if row is not None]

        return await attempt(lambda: read_page(request, Source((str,), read)))

    def _models(self, provider: str) -> Mapping[str, str]:
        """By pool, of those too that are disabled by now."""
        rows = self.tenants.every(PoolRow, {"provider": provider})
        models = {row.name: row.upstream_model for row in rows if row.upstream_model}
        if not models:
            raise NotThere(provider)
        return models


async def reconciliations_of(request: Request) -> ReconciliationService:
    parts = parts_of(request)
    return ReconciliationService(parts.tenants, parts.ledger, parts.outside.clock)


Reconciliations = Annotated[ReconciliationService, Depends(reconciliations_of)]
