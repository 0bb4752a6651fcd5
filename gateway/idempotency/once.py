"""Running a call once: the use case that the endpoint sees. Claims a key, records the run under it,
and tells the answer again to whoever comes with the same key and the same body."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from billing.tasks import end
from gateway.idempotency.fate import Fates
from gateway.idempotency.key import Keyed, reused
from gateway.idempotency.recording import Recording
from gateway.idempotency.refusals import RETRY_S, out_of_reach, too_late_to_claim, unknown
from gateway.idempotency.replaying import Replaying, SecondsLeft
from gateway.idempotency.tape import Player
from gateway.idempotency.tapes import Becomes, Claim, Tapes, TapesUnavailable

Send = Callable[[dict[str, Any]], Awaitable[None]]

DOUBTS_MAX = 2_000
"""Claims remembered because Redis did not say whether it granted them. Of what is beyond that, a
key whose claim was granted, and not told, is held until it expires."""


@dataclass(slots=True)
class Once:
    """`finish_within_s` bounds a run whose client has gone."""

    tapes: Tapes
    replaying: Replaying
    fates: Fates
    finish_within_s: float
    _running: dict[str, Recording] = field(default_factory=dict)
    _doubts: dict[str, Keyed] = field(default_factory=dict)

    async def runner(self, keyed: Keyed, request_id: str, left_s: SecondsLeft) -> str:
        """The request id under which the call runs or ran; ours if it is ours to run, provided that
        `refuse_if_ran` does not refuse it.

        Raises ApiError 422 if the key was given for something else, 503 while Redis is away or does
        not know what ran, and 504: without a claim nothing is run.
        """
        if left_s() <= 0:
            raise too_late_to_claim()
        try:
            claim = await self._claim(keyed, request_id, left_s())
        except TapesUnavailable as away:
            raise (too_late_to_claim() if left_s() <= 0 else out_of_reach()) from away
        if claim.state == "unknown":
            raise unknown()
        if claim.state == "other":
            raise reused(claim.request_id)
        return claim.request_id

    async def refuse_if_ran(self, keyed: Keyed, left_s: SecondsLeft) -> None:
        """What Redis has no claim of may have run all the same. Raises ApiError 410 or 503."""
        await self.fates.refuse_if_ran(keyed, left_s())

    @asynccontextmanager
    async def recording(
        self, keyed: Keyed, request_id: str, client: Send
    ) -> AsyncIterator[Recording]:
        async with Recording(self.tapes, keyed, request_id, client) as recording:
            self._running[request_id] = recording
            try:
                yield recording
            finally:
                del self._running[request_id]

    async def follow(
        self, keyed: Keyed, request_id: str, player: Player, send: Send, left_s: SecondsLeft
    ) -> None:
        """Raises ApiError, or KeyFree."""
        await self.replaying.follow(keyed, request_id, player, send, left_s)

    async def announce(self) -> None:
        """Tell a Redis that was lost of every call that runs here under a key. Raises
        TapesUnavailable."""
        for recording in list(self._running.values()):
            if not await recording.announce():
                raise TapesUnavailable("runs under keys are not announced yet")

    async def run(self) -> None:
        """Give back claims that were not heard of, until cancelled."""
        while True:
            await asyncio.sleep(RETRY_S)
            for request_id, keyed in list(self._doubts.items()):
                if not await self._is_released(keyed, request_id):
                    break
                del self._doubts[request_id]

    async def _claim(self, keyed: Keyed, request_id: str, within_s: float) -> Claim:
        """Who leaves meanwhile leaves no claim behind."""
        claiming = asyncio.create_task(self.tapes.claim(keyed, request_id, within_s))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await asyncio.shield(self._give_up(claiming, keyed, request_id))
            raise
        except TapesUnavailable:
            self._doubt(keyed, request_id)
            raise

    async def _give_up(self, claiming: asyncio.Task[Claim], keyed: Keyed, rid: str) -> None:
        await end(claiming)
        if not await self._is_released(keyed, rid):
            self._doubt(keyed, rid)

    def _doubt(self, keyed: Keyed, request_id: str) -> None:
        """Redis may have granted it in time, and its answer may have been lost."""
        if len(self._doubts) < DOUBTS_MAX:
            self._doubts[request_id] = keyed

    async def _is_released(self, keyed: Keyed, request_id: str) -> bool:
        """What may have been claimed is free again."""
        try:
            await self.tapes.write(keyed, request_id, Becomes.RELEASED, 0, [])
        except TapesUnavailable:
            return False
        return True
