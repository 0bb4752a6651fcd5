"""Sessions that were signed out of before their time, for every gateway: a cookie that somebody
kept opens nothing any more. Redis remembers each until it would have ended by itself.

While Redis is away a session counts as open, since the console has to show that very outage; a
signing out meanwhile only takes the cookie from the browser.
"""

import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.console import session

log = logging.getLogger(__name__)

ENDED_KEY = "sluice:console:ended:"


class SignedOutSessions:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def end(self, cookie: str, now_s: float) -> None:
        session_name = session.named(cookie)
        if session_name is None or session_name[1] <= now_s:
            return
        nonce, expires_s = session_name
        try:
            await self._redis.set(ENDED_KEY + nonce, 1, ex=max(1, round(expires_s - now_s)))
        except RedisError as away:
            log.warning("console: a session was not ended everywhere: %s", away)

    async def has(self, cookie: str) -> bool:
        session_name = session.named(cookie)
        if session_name is None:
            return False
        try:
            return bool(await self._redis.exists(ENDED_KEY + session_name[0]))
        except RedisError:
            return False
