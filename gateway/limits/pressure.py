"""How full Redis is, and which calls are refused for it.

While SQL is away, or the ledger process, usage waits in Redis, whose streams are never cut before
the ledger has them. So before Redis itself has no room left, the calls that can wait are refused,
and then all of them: what was admitted can always be settled.
"""

import asyncio
import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.errors import ApiError, overloaded
from routing.types import Tier

log = logging.getLogger(__name__)

FLEX_AT, ALL_AT = 0.60, 0.85
"""Of the memory that Redis may use (`maxmemory`), or that its machine has where it is not bound."""
RETRY_S = 30.0
"""How fast the streams drain depends on what keeps the ledger, which Redis does not know: a
database that is away is so for minutes. Who comes back sooner would fill what has been drained."""


class Pressure:
    """Looks every `poll_s` seconds. A Redis that does not answer is as full as it last was."""

    def __init__(self, redis: Redis, poll_s: float) -> None:
        self._redis = redis
        self._poll_s = poll_s
        self.fraction = 0.0

    def refusal(self, tier: Tier) -> ApiError | None:
        """The 503 of a call that is not to be admitted now."""
        if self.fraction < FLEX_AT or (self.fraction < ALL_AT and tier is not Tier.FLEX):
            return None
        return overloaded("The ledger is behind, and its queue is nearly full.", RETRY_S)

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._poll_s)

    async def refresh(self) -> None:
        try:
            memory = await self._redis.info("memory")
        except (RedisError, OSError):
            return
        before, self.fraction = self.fraction, _fraction(memory)
        if _shed(self.fraction) != _shed(before):
            log.warning("redis is %d %% full: %s", round(self.fraction * 100), _shed(self.fraction))


def _fraction(memory: dict[str, int]) -> float:
    most = memory["maxmemory"] or memory["total_system_memory"]
    return memory["used_memory"] / most


def _shed(fraction: float) -> str:
    if fraction >= ALL_AT:
        return "no call is admitted until the ledger has caught up"
    return "flex calls are refused" if fraction >= FLEX_AT else "every call is admitted"
