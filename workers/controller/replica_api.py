"""The two routes of a worker replica for the controller: `stats` and `drain`.

A refusing port means that the replica is gone. A slow answer means only that it is busy. So the two
are different answers.
"""

import aiohttp
import msgspec

from routing.gauges import Gauges
from workers.autoscaling.demand import TierQueue
from workers.writer.writes import SECRET_HEADER


class ReplicaGone(Exception):
    """Nothing listens at the address, or it is not a worker that shares our secret."""


class ReplicaSlow(Exception):
    """The replica did not answer in time."""


class ReplicaStats(msgspec.Struct, frozen=True):
    """What a replica says of itself, also for how long it has been warm, and how much of that time
    it computed. Totals are since it started. `fetch_ms`: how long its checkpoint took to come."""

    running: int
    queued: int
    draining: bool = False
    asleep: bool = False
    waking: bool = False
    last_active_ms_ago: float | None = None
    busy_us_total: int = 0
    requests_total: int = 0
    tokens_out_total: int = 0
    tokens_prefilled_total: int = 0
    warm_ms: int | None = None
    fetch_ms: int = 0
    gauges: Gauges | None = None
    queues: tuple[TierQueue, ...] = ()


class ReplicaApi:
    """One client for all replicas; `session` is the caller's and outlives it."""

    def __init__(self, session: aiohttp.ClientSession, *, secret: str, timeout_s: float) -> None:
        self._session = session
        self._headers = {SECRET_HEADER: secret}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def stats(self, address: str) -> ReplicaStats:
        """The stats of a replica. Raises ReplicaGone or ReplicaSlow."""
        content = await self._call("GET", f"{address}/v1/sluice/stats", None)
        try:
            return msgspec.json.decode(content, type=ReplicaStats)
        except msgspec.DecodeError as odd:
            raise ReplicaGone(f"{address}: stats in an unknown shape: {odd}") from odd

    async def drain(self, address: str, *, draining: bool, asleep: bool = False) -> None:
        """Tell a replica to refuse new work, or to take it again, and to sleep or to be awake.
        Raises ReplicaGone or ReplicaSlow."""
        body = {"draining": draining, "asleep": asleep}
        await self._call("POST", f"{address}/v1/sluice/drain", body)

    async def _call(self, method: str, url: str, body: dict[str, bool] | None) -> bytes:
        try:
            async with self._session.request(
                method, url, json=body, headers=self._headers, timeout=self._timeout
            ) as reply:
                content = await reply.read()
        except TimeoutError as late:
            raise ReplicaSlow(f"{method} {url}: no answer in time") from late
        except (aiohttp.ClientError, OSError) as gone:
            raise ReplicaGone(f"{method} {url}: {gone}") from gone
        if reply.status != 200:
            raise ReplicaGone(f"{method} {url}: {reply.status} {content[:200]!r}")
        return content
