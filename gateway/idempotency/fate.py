"""What became of a call whose runner has gone: the charge for what had been received of it."""

import asyncio

from sqlalchemy.exc import SQLAlchemyError

from billing.limits.holds import Holds
from billing.limits.types import HoldState, LimitsUnavailable
from billing.queries import known
from billing.store.engine import Store
from gateway.errors import overloaded

LOOK_EVERY_S = 0.5


class Fates:
    """Waits at most `wait_s` for the reaper to settle what a dead gateway left open."""

    def __init__(self, store: Store, holds: Holds, *, wait_s: float) -> None:
        self._store = store
        self._holds = holds
        self._wait_s = wait_s

    async def charged_nanousd(self, request_id: str, organization: str) -> int:
        """Raises ApiError 503 while the call is not settled, or nobody can say."""
        try:
            async with asyncio.timeout(self._wait_s):
                while True:
                    amount = await self._settled(request_id, organization)
                    if amount is not None:
                        return amount
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError as open_still:
            message = f"The gateway that ran {request_id} was lost; its charge is being settled."
            raise overloaded(message, retry_after_s=self._wait_s) from open_still
        except (SQLAlchemyError, LimitsUnavailable) as away:
            raise overloaded("The ledger is out of reach.", retry_after_s=self._wait_s) from away

    async def _settled(self, request_id: str, organization: str) -> int | None:
        """None while its hold is open. What nobody has heard of was never admitted, and is free."""
        booked = await asyncio.to_thread(known, self._store, [request_id])
        if request_id in booked:
            return booked[request_id].amount_nanousd
        hold = await self._holds.read(request_id, organization)
        if hold is None:
            return 0
        return None if hold.state is HoldState.HELD else hold.amount_nanousd
