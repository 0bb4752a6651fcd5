"""The ledger as an administrator reads it: accounts, transfers, and its proof."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from redis.asyncio import Redis

from billing import queries
from billing.db.engine import Store
from billing.ledger.report import Report
from billing.verify import verify_all
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from routing.types import Clock

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LedgerService:
    ledger: Store
    redis: Redis
    spool_root: Path
    clock: Clock

    async def accounts(self, request: PageRequest) -> PageRows[Row]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Row]]:
            rows = queries.accounts(self.ledger, behind=behind[0] if behind else None, limit=limit)
            return [((row["code"],), row) for row in rows]

        return await attempt(lambda: read_page(request, Source((str,), read)))

    async def transfers(
        self, request: PageRequest, organization: str | None, rid: str | None
    ) -> PageRows[Row]:
        """The newest first, by when they count."""

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Row]]:
            before = None if behind is None else (behind[0], behind[1])
            rows = queries.recent_transfers(
                self.ledger, limit, organization, rid=rid, before=before
            )
            return [((row["booked_us"], row["transfer_id"]), row) for row in rows]

        return await attempt(lambda: read_page(request, Source((int, str), read)))

    async def verify(self) -> Report:
        return await verify_all(
            self.ledger,
            now_us=round(self.clock() * 1e6),
            spool_root=self.spool_root,
            redis=self.redis,
        )


async def ledger_of(request: Request) -> LedgerService:
    parts = parts_of(request)
    spool_root = parts.settings.data.absolute() / "spool"
    return LedgerService(parts.ledger, parts.redis, spool_root, parts.outside.clock)


Ledger = Annotated[LedgerService, Depends(ledger_of)]
