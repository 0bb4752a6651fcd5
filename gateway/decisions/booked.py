"""One call as the ledger has it, waited for: the ledger is a moment behind the gateways, and the
record of a decision comes a moment after its call is booked."""

import asyncio
from dataclasses import dataclass
from typing import Final

from billing import queries
from billing.db.engine import Store
from billing.queries import CallRecord
from gateway.call.admission import Accounts
from gateway.decisions.reader import DecisionReader
from gateway.tenants.ids import made_at_s
from routing.types import Clock

LEDGER_LAG_S: Final = 2.0
LEDGER_LOOK_EVERY_S: Final = 0.1


class NotBooked(LookupError):
    """The ledger has no such call. `may_come`: it has not ended, or is not in the ledger yet."""

    def __init__(self, request_id: str, may_come: bool) -> None:
        super().__init__(request_id)
        self.may_come = may_come


@dataclass(frozen=True, slots=True)
class BookedCalls:
    decisions: DecisionReader
    accounts: Accounts
    ledger: Store
    clock: Clock

    async def whole(self, request_id: str, organization: str | None = None) -> CallRecord:
        """The call with what its decision was made from, within LEDGER_LAG_S; after that as it is.
        Raises NotBooked, at once where nothing says that the call may come."""
        waited_s, is_known = 0.0, False
        while True:
            call = await asyncio.to_thread(self.decisions.call, request_id, organization)
            is_late = waited_s >= LEDGER_LAG_S
            if call is not None and (is_late or self._is_whole(call)):
                return call
            if not waited_s:
                is_known = await self._is_known(request_id, organization)
            if is_late or not (call is not None or is_known or self._is_young(request_id)):
                raise NotBooked(request_id, is_known)
            await asyncio.sleep(LEDGER_LOOK_EVERY_S)
            waited_s += LEDGER_LOOK_EVERY_S

    async def _is_known(self, request_id: str, organization: str | None) -> bool:
        if organization is not None:
            return await self.accounts.heard_of(request_id, organization)
        if self.accounts.knows(request_id):
            return True
        return await asyncio.to_thread(queries.is_open, self.ledger, request_id)

    def _is_whole(self, call: CallRecord) -> bool:
        """Whether what its decision was made from is there, or will not come any more."""
        is_old = self.clock() - call.usage.ingested_us / 1e6 > LEDGER_LAG_S
        return is_old or call.made_from is not None or bool(call.decision)

    def _is_young(self, request_id: str) -> bool:
        """Whether the record of a call may be on its way. The id says so alone: whose call it is
        makes no difference. The clock of the gateway that made it may be ahead of this one."""
        made_s = made_at_s(request_id)
        return made_s is not None and abs(self.clock() - made_s) < LEDGER_LAG_S
