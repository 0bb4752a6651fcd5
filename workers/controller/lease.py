"""The lease of the leader: one Redis key with a time to live, held by one controller and renewed in
time, and the epoch of each lease.

A standby tries to take the key whenever it looks. A leader that stops renewing is replaced after
`ttl_s`, and stops believing that it leads at the same moment. Where nobody else took the lease
meanwhile, it leads on in the same epoch. A lease alone is no fence: a leader may pause between its
look at the lease and its write. The epoch is: the cluster's writer refuses one below the highest
that it saw.
"""

import asyncio
import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

from workers.writer.writes import Leader

log = logging.getLogger(__name__)

LEASE_KEY = "sluice:controller:lease"
EPOCH_KEY = "sluice:controller:epoch"
"""A hash: the last epoch, and whose it was."""
KEYS = [LEASE_KEY, EPOCH_KEY]

RENEWALS = 5
"""In the life of a lease."""

_HOLD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local last = redis.call('HMGET', KEYS[2], 'epoch', 'holder')
if last[1] and last[2] == ARGV[1] then return tonumber(last[1]) end
redis.call('HSET', KEYS[2], 'holder', ARGV[1])
return redis.call('HINCRBY', KEYS[2], 'epoch', 1)
"""

_RISE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local epoch = tonumber(redis.call('HGET', KEYS[2], 'epoch') or 0)
epoch = math.max(epoch, tonumber(ARGV[2])) + 1
redis.call('HSET', KEYS[2], 'epoch', epoch, 'holder', ARGV[1])
return epoch
"""

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""


class Lease:
    """One contender. `keep` holds the lease in the background, `leader` says whether it is ours."""

    def __init__(self, redis: Redis, *, holder: str, ttl_s: float) -> None:
        self._holder = holder
        self._ttl_s = ttl_s
        self._hold = redis.register_script(_HOLD)
        self._rise = redis.register_script(_RISE)
        self._release = redis.register_script(_RELEASE)
        self._held_until_s = float("-inf")
        self._epoch = 0
        self._decided = False

    @property
    def leader(self) -> Leader | None:
        """This controller with the epoch of its lease, while it is held."""
        if asyncio.get_running_loop().time() >= self._held_until_s:
            return None
        return Leader(self._epoch, self._holder)

    @property
    def decided(self) -> bool:
        """Whether Redis has answered at all."""
        return self._decided

    async def keep(self) -> None:
        """Contend and renew until cancelled."""
        while True:
            try:
                await self.hold()
            except RedisError as unreachable:
                log.warning("lease: %s", unreachable)
            await asyncio.sleep(self._ttl_s / RENEWALS)

    async def hold(self) -> bool:
        """Take or renew the lease once. Its life counts from before the question was sent."""
        asked_s = asyncio.get_running_loop().time()
        epoch = int(await self._hold(keys=KEYS, args=[self._holder, int(self._ttl_s * 1000)]))
        self._held_until_s = asked_s + self._ttl_s if epoch else float("-inf")
        self._epoch = epoch
        self._decided = True
        return epoch > 0

    async def rise_above(self, highest: int) -> bool:
        """Take an epoch above this one, where Redis lost its counter. Only who holds the lease may.
        The life of the lease stays as it is."""
        epoch = int(await self._rise(keys=KEYS, args=[self._holder, highest]))
        if epoch:
            self._epoch = epoch
        return epoch > 0

    async def release(self) -> None:
        """Give up the lease, so that a standby need not wait."""
        self._held_until_s = float("-inf")
        await self._release(keys=KEYS, args=[self._holder])
