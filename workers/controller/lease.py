"""The lease of the leader: one Redis key with a time to live, held by one controller and renewed in
time.

A standby tries to take the key whenever it looks. A leader that stops renewing is replaced after
`ttl_s`, and stops believing that it leads at the same moment. This is a lease, not a fence. A write
that was already on its way is an absolute target, and the next leader overwrites it.
"""

import asyncio
import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

LEASE_KEY = "sluice:controller:lease"

_HOLD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""


class Lease:
    """One contender. `keep` holds the lease in the background, `held` says whether it is ours."""

    def __init__(self, redis: Redis, *, holder: str, ttl_s: float) -> None:
        self._holder = holder
        self._ttl_s = ttl_s
        self._hold = redis.register_script(_HOLD)
        self._release = redis.register_script(_RELEASE)
        self._held_until_s = float("-inf")
        self._decided = False

    @property
    def held(self) -> bool:
        return asyncio.get_running_loop().time() < self._held_until_s

    @property
    def decided(self) -> bool:
        """Whether Redis has answered at all."""
        return self._decided

    async def keep(self) -> None:
        """Contend and renew until cancelled, three times in the life of a lease."""
        while True:
            try:
                await self.hold()
            except RedisError as unreachable:
                log.warning("lease: %s", unreachable)
            await asyncio.sleep(self._ttl_s / 3)

    async def hold(self) -> bool:
        """Take or renew the lease once. Its life counts from before the question was sent."""
        asked_s = asyncio.get_running_loop().time()
        held = bool(await self._hold(keys=[LEASE_KEY], args=[self._holder, self._ttl_ms]))
        self._held_until_s = asked_s + self._ttl_s if held else float("-inf")
        self._decided = True
        return held

    async def release(self) -> None:
        """Give up the lease, so that a standby need not wait."""
        self._held_until_s = float("-inf")
        await self._release(keys=[LEASE_KEY], args=[self._holder])

    @property
    def _ttl_ms(self) -> int:
        return int(self._ttl_s * 1000)
