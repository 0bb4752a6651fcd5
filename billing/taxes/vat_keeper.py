"""Has VAT ids of buyers looked up in the ledger process, in good time before an answer is too old.

No transaction is open while it asks. An id without an answer is asked about again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.settings import TaxSettings
from billing.taxes import vat_store
from billing.taxes.vat_lookup import NoVatAnswer, VatCheck, VatLookup

log = logging.getLogger("sluice.ledger.vat")

MICROSECONDS = 1_000_000
IDS_AT_ONCE = 20


class VatKeeper:
    """`now` is epoch seconds."""

    def __init__(
        self, store: Store, lookup: VatLookup, settings: TaxSettings, *, now: Callable[[], float]
    ) -> None:
        self._store = store
        self._lookup = lookup
        self._settings = settings
        self._now = now
        self._retry_at_s: dict[str, float] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            answers = 0
            try:
                answers = await self.turn()
            except (OSError, SQLAlchemyError) as error:
                log.warning("VAT ids wait: %s", error)
            if answers < IDS_AT_ONCE:
                await asyncio.sleep(self._settings.vat_lookup_interval_s)

    async def turn(self) -> int:
        """Ask about a few ids that are due. How many answers came."""
        now_s, days = self._now(), self._settings.vat_lookup_keep_days
        due = await asyncio.to_thread(vat_store.due, self._store, int(now_s * MICROSECONDS), days)
        waiting = {vat_id for vat_id, _ in due}
        self._retry_at_s = {k: at_s for k, at_s in self._retry_at_s.items() if k in waiting}
        ready = [pair for pair in due if self._retry_at_s.get(pair[0], now_s) <= now_s]
        answers = [await self._ask(*pair) for pair in ready[:IDS_AT_ONCE]]
        return sum(answers)

    async def _ask(self, vat_id: str, requester: str) -> bool:
        try:
            answer = await self._lookup(vat_id, requester)
        except NoVatAnswer as silence:
            log.warning("VAT id %s is not looked up: %s", vat_id, silence)
            self._retry_at_s[vat_id] = self._now() + self._settings.vat_lookup_retry_s
            return False
        check = VatCheck(
            vat_id=vat_id,
            requester=requester,
            is_valid=answer.is_valid,
            consultation=answer.consultation,
            checked_us=int(self._now() * MICROSECONDS),
        )
        await asyncio.to_thread(vat_store.keep, self._store, check)
        return True
