"""What the ledger says of calls under a key: whether one ran of which Redis knows nothing, and what
a call was charged whose runner has gone."""

import asyncio
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.keys import shard_of
from billing.limits.types import HoldState, LimitsUnavailable
from billing.queries import KeyedRun, is_open, known, run_under_key
from billing.recovery.primer import open_in
from gateway.errors import overloaded
from gateway.idempotency.key import Keyed
from gateway.idempotency.refusals import ledger_away, ran_before, unsettled
from routing.types import Clock

LOOK_EVERY_S = 0.5


class Fates:
    """Waits at most `wait_s` for the ledger, or for the reaper to settle what a dead gateway left
    open. A key is held for `held_s` after the end of its call."""

    def __init__(
        self, store: Store, holds: Holds, *, wait_s: float, held_s: float, clock: Clock
    ) -> None:
        self._store = store
        self._holds = holds
        self._wait_s = wait_s
        self._held_s = held_s
        self._clock = clock

    async def refuse_if_ran(self, keyed: Keyed, within_s: float) -> None:
        """Of a key that Redis does not know. Raises ApiError 410 if its call was charged, and 503
        while that cannot be said."""
        since_us = round((self._clock() - self._held_s) * 1e6)
        query = partial(run_under_key, self._store, keyed.api_key, keyed.name, since_us)
        try:
            async with asyncio.timeout(min(within_s, self._wait_s)):
                ran = await asyncio.to_thread(query)
                if ran is None or await self._was_free(ran, keyed.organization):
                    return
        except (TimeoutError, SQLAlchemyError, LimitsUnavailable) as away:
            raise ledger_away() from away
        charged = ran.charged_nanousd
        raise unsettled(ran.rid) if charged is None else ran_before(ran.rid, charged)

    async def charged_nanousd(self, request_id: str, organization: str, within_s: float) -> int:
        """Raises ApiError 503 while the call is not settled, or nobody can say."""
        wait_s = min(within_s, self._wait_s)
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    amount = await self._settled(request_id, organization)
                    if amount is not None:
                        return amount
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError as open_still:
            message = f"{request_id} has ended without an answer; its charge is being settled."
            raise overloaded(message, retry_after_s=self._wait_s) from open_still
        except (SQLAlchemyError, LimitsUnavailable) as away:
            message = f"What {request_id} was charged cannot be looked up now."
            raise overloaded(message, retry_after_s=self._wait_s) from away

    async def _settled(self, request_id: str, organization: str) -> int | None:
        """None while its hold is open, or may be. What nobody has heard of was never admitted, and
        is free."""
        booked = await asyncio.to_thread(known, self._store, [request_id])
        if request_id in booked:
            return booked[request_id].amount_nanousd
        hold = await self._holds.read(request_id, organization)
        if hold is not None:
            return None if hold.state is HoldState.HELD else hold.amount_nanousd
        return 0 if await self._was_never_admitted(request_id, organization) else None

    async def _was_free(self, ran: KeyedRun, organization: str) -> bool:
        """It has ended, which the ledger has not read yet, and gave its key back."""
        if ran.charged_nanousd is not None:
            return False
        hold = await self._holds.read(ran.rid, organization)
        return hold is not None and (hold.state, hold.amount_nanousd) == (HoldState.SETTLED, 0)

    async def _was_never_admitted(self, request_id: str, organization: str) -> bool:
        """Not where Redis has lost its holds and the ledger is still telling them again."""
        if await asyncio.to_thread(is_open, self._store, request_id):
            return False
        epochs = await self._holds.shard_epochs()
        return open_in(epochs[shard_of(organization)], await self._holds.run_id())
