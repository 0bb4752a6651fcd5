"""Keeps what decisions were made from, off the way of the calls.

A call leaves its decision in a list and goes on. Some times a second a thread encodes the list, and
one command hands it to the ledger's process. No money depends on it: where Redis is away for long,
or a gateway is killed, explanations are lost. What is lost here is counted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.decisions import batch
from billing.decisions.writer import publish
from gateway.decisions.narrowing import LeftOut
from gateway.decisions.record import DecisionRecord, PartsEncoder, outcome_of
from routing.policy.attributes import Attributes
from routing.policy.narrow import Preferences
from routing.types import Call, Decision, FleetSnapshot, Refusal

log = logging.getLogger(__name__)

EVERY_S: Final = 0.25
"""How long a decision stays here before it is handed over."""
PENDING_MAX: Final = 20_000
"""Decisions that stay here. What comes beyond them is lost."""
BODY_RECORDS: Final = 500
BODIES_MAX: Final = 100
"""Bodies that wait for Redis. The oldest are lost first."""


class DecisionMade(NamedTuple):
    """A decision with its arguments, as in `DecisionRecord`."""

    call: Call
    attributes: Attributes
    snapshot: FleetSnapshot
    decided: Decision | Refusal
    wish: Preferences = Preferences()
    left_out: LeftOut = ()
    error: str | None = None

    def record(self) -> DecisionRecord:
        return DecisionRecord(
            call=self.call,
            attributes=self.attributes,
            snapshot=self.snapshot,
            seed=self.decided.seed,
            outcome=outcome_of(self.decided),
            wish=self.wish,
            left_out=self.left_out,
            error=self.error,
        )


class DecisionRecorder:
    def __init__(self, redis: Redis, gateway_id: str) -> None:
        self._redis = redis
        self._gateway_id = gateway_id
        self._pending: list[DecisionMade] = []
        self._bodies: deque[tuple[int, bytes]] = deque()
        self._handing_over = asyncio.Lock()
        self.lost = 0
        """Decisions of which no record was handed over."""

    def add(self, made: DecisionMade) -> None:
        if len(self._pending) < PENDING_MAX:
            self._pending.append(made)
        else:
            self.lost += 1

    async def run(self) -> None:
        """Hand over what was added, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Hand over all of it. What Redis does not take now waits for the next time, and so does
        all where this is cancelled."""
        async with self._handing_over:
            await self._hand_over()

    async def _hand_over(self) -> None:
        if made := self._pending[:]:
            bodies = await asyncio.to_thread(_bodies, made)
            self._bodies += bodies
            del self._pending[: len(made)]
        while len(self._bodies) > BODIES_MAX:
            self.lost += self._bodies.popleft()[0]
        try:
            while self._bodies:
                await publish(self._redis, self._gateway_id, self._bodies[0][1])
                self._bodies.popleft()
        except RedisError as away:
            log.warning("records of decisions wait for Redis: %s", away)


def _bodies(made: Sequence[DecisionMade]) -> list[tuple[int, bytes]]:
    """Bodies with how many records each has."""
    encoder = PartsEncoder()
    records = [encoder.encode(each.record()) for each in made]
    parts = [records[at : at + BODY_RECORDS] for at in range(0, len(records), BODY_RECORDS)]
    return [(len(part), batch.encode(part)) for part in parts]
