"""Who leads: one Redis key with a time to live, held by one controller and renewed in time.

A standby tries to take the key whenever it looks; a leader that stops renewing is replaced after
`ttl_s`. This is a lease, not a fence: a leader that was paused for longer may still send one last
absolute target, which the next one overwrites.
"""

from redis.asyncio import Redis

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
    def __init__(self, redis: Redis, *, holder: str, ttl_s: float) -> None:
        self._holder = holder
        self._ttl_ms = int(ttl_s * 1000)
        self._hold = redis.register_script(_HOLD)
        self._release = redis.register_script(_RELEASE)

    async def hold(self) -> bool:
        """Take or renew the lease; True while it is ours."""
        return bool(await self._hold(keys=[LEASE_KEY], args=[self._holder, self._ttl_ms]))

    async def release(self) -> None:
        """Give it up, so that a standby need not wait."""
        await self._release(keys=[LEASE_KEY], args=[self._holder])
