"""Running a call once: the use case that the endpoint sees. Claims a key, records the run under it,
and tells the answer again to whoever comes with the same key and the same body."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from billing.tasks import end
from gateway.errors import overloaded
from gateway.idempotency.key import Keyed, reused
from gateway.idempotency.recording import Recording
from gateway.idempotency.replaying import Replaying
from gateway.idempotency.tape import Player
from gateway.idempotency.tapes import Becomes, Claim, Tapes, TapesUnavailable

Send = Callable[[dict[str, Any]], Awaitable[None]]

REDIS_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Once:
    """`finish_within_s` bounds a run whose client has gone."""

    tapes: Tapes
    replaying: Replaying
    finish_within_s: float

    async def runner(self, keyed: Keyed, request_id: str) -> str:
        """The request id under which the call runs or ran; ours if it is ours to run.

        Raises ApiError 422 if the key was given for something else, and 503 while Redis is away:
        without a claim nothing is run.
        """
        try:
            claim = await self._claim(keyed, request_id)
        except TapesUnavailable as away:
            message = "Idempotency keys are out of reach; the call was not run."
            raise overloaded(message, REDIS_RETRY_S) from away
        if claim.state == "other":
            raise reused(claim.request_id)
        return claim.request_id

    def recording(self, keyed: Keyed, request_id: str, client: Send) -> Recording:
        return Recording(self.tapes, keyed, request_id, client)

    async def follow(self, keyed: Keyed, request_id: str, player: Player, send: Send) -> None:
        """Raises ApiError."""
        await self.replaying.follow(keyed, request_id, player, send)

    async def _claim(self, keyed: Keyed, request_id: str) -> Claim:
        """Who leaves meanwhile leaves no claim behind."""
        claiming = asyncio.create_task(self.tapes.claim(keyed, request_id))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await asyncio.shield(self._give_up(claiming, keyed, request_id))
            raise
        except TapesUnavailable:
            await self._release(keyed, request_id)
            raise

    async def _give_up(self, claiming: asyncio.Task[Claim], keyed: Keyed, rid: str) -> None:
        await end(claiming)
        await self._release(keyed, rid)

    async def _release(self, keyed: Keyed, request_id: str) -> None:
        """What may have been claimed is free again; a Redis that stays away has it until its time
        to live ends."""
        try:
            await self.tapes.write(keyed, request_id, Becomes.RELEASED, 0, [])
        except TapesUnavailable:
            return
