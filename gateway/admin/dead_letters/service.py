"""What the ledger could not book, tried again or judged by an administrator."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.db.engine import Store
from billing.writer import dead_letters
from billing.writer.dead_letters import AlreadyResolved, Letter, StillDead, UnknownLetter
from gateway.admin.use_cases import ADMIN, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import RowsById, rows_by_id
from gateway.errors import ApiError
from routing.types import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetterService:
    """Raises ApiError: 404 for an unknown letter, 409 for one that cannot be booked or was
    judged."""

    ledger: Store
    redis: Redis
    clock: Clock

    async def page(self, resolved_too: bool, after: int, limit: int) -> RowsById[Letter, int]:
        """The oldest first."""
        letters = await attempt(
            lambda: dead_letters.listed(
                self.ledger, resolved_too=resolved_too, after=after, limit=limit + 1
            )
        )
        return rows_by_id(letters, limit, lambda letter: letter.number)

    async def letter(self, number: int) -> Letter:
        return await self._run(lambda: dead_letters.one(self.ledger, number))

    async def retry(self, number: int) -> Letter:
        now_us = self._now_us
        letter = await self._run(
            lambda: dead_letters.retry(self.ledger, number, by=ADMIN, now_us=now_us)
        )
        return await self._recounted(letter)

    async def judge(self, number: int, note: str) -> Letter:
        now_us = self._now_us
        letter = await self._run(
            lambda: dead_letters.judge(self.ledger, number, by=ADMIN, note=note, now_us=now_us)
        )
        return await self._recounted(letter)

    async def _recounted(self, letter: Letter) -> Letter:
        """It is done in SQL, whether or not Redis answers."""
        try:
            await dead_letters.ask_to_recount(self.redis, letter)
        except (RedisError, OSError) as away:
            log.warning("what Redis counts is not set anew after a dead letter: %s", away)
        return letter

    async def _run(self, work: Callable[[], Letter]) -> Letter:
        try:
            return await attempt(work)
        except UnknownLetter as unknown:
            message = f"There is no dead letter {unknown}."
            raise ApiError(404, message, code="not_found") from unknown
        except AlreadyResolved as done:
            raise ApiError(409, f"Nothing was changed: {done}.", code="conflict") from done
        except StillDead as dead:
            raise ApiError(409, f"It cannot be booked: {dead}.", code="conflict") from dead

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


async def dead_letters_of(request: Request) -> DeadLetterService:
    parts = parts_of(request)
    return DeadLetterService(parts.ledger, parts.redis, parts.outside.clock)


Letters = Annotated[DeadLetterService, Depends(dead_letters_of)]
