"""Keeps what decisions were made from, and which calls were refused, off the way of the calls.

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
from billing.refusals.refusal import Refusal as Refused
from billing.refusals.refusal import encode
from gateway.decisions.narrowing import LeftOut
from gateway.decisions.record import DecisionRecord, PartsEncoder, outcome_of
from gateway.decisions.refusals import RefusalReason, RefusalTally, TurnedAway, refusal_of
from gateway.errors import ApiError
from routing.policy.attributes import Attributes
from routing.policy.narrow import Preferences
from routing.types import Call, Clock, Decision, FleetSnapshot, Refusal

log = logging.getLogger(__name__)

EVERY_S: Final = 0.25
"""How long a decision stays here before it is handed over."""
PENDING_MAX: Final = 20_000
"""Decisions that stay here. What comes beyond them is lost."""
BODY_RECORDS: Final = 500
BODIES_MAX: Final = 100
"""Bodies that wait for Redis. The oldest are lost first."""
BAD_REQUEST: Final = 400


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
    def __init__(self, redis: Redis, gateway_id: str, clock: Clock) -> None:
        self._redis = redis
        self._gateway_id = gateway_id
        self._clock = clock
        self._pending: list[DecisionMade] = []
        self._refusals = RefusalTally()
        self._bodies: deque[_Parcel] = deque()
        self._handing_over = asyncio.Lock()
        self._lost = 0

    @property
    def lost(self) -> int:
        """Decisions and refusals of which no record was handed over."""
        return self._lost + self._refusals.lost

    def add(self, made: DecisionMade) -> None:
        if len(self._pending) < PENDING_MAX:
            self._pending.append(made)
        else:
            self._lost += 1

    def add_refused(self, made: DecisionMade, error: ApiError) -> None:
        """Of a call that was decided to be refused. Each one is recorded."""
        assert isinstance(made.decided, Refusal), "there is a decision to refuse it"
        self.add(made._replace(error=error.code))
        self._list(made, error, made.decided.kind)

    def add_turned_away(self, made: DecisionMade, error: ApiError) -> None:
        """Of a call that limits or money refused after it was decided. It is recorded where it has
        a row of its own, so that a flood of them leaves few records."""
        if self._list(made, error):
            self.add(made._replace(error=error.code))

    def add_unserved(self, made: DecisionMade, error: ApiError) -> None:
        """Of a call that nobody took after it was admitted. It is recorded already. One that a
        server refused as wrong is its caller's fault, and its message may quote the call."""
        if error.status != BAD_REQUEST:
            self._list(made, error, TurnedAway.UNSERVED)

    def _list(
        self, made: DecisionMade, error: ApiError, reason: RefusalReason | None = None
    ) -> bool:
        at_us = round(self._clock() * 1e6)
        refusal = refusal_of(made.call, made.decided.matched, error, at_us, reason)
        return self._refusals.add(refusal)

    async def run(self) -> None:
        """Hand over what was added, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Hand over all of it, but refusals of this minute that are still counted. What Redis does
        not take now waits for the next time, and so does all where this is cancelled."""
        async with self._handing_over:
            await self._hand_over(self._refusals.take(round(self._clock() * 1e6)))

    async def close(self) -> None:
        """Hand over what there is, for the last time."""
        async with self._handing_over:
            await self._hand_over(self._refusals.take())

    async def _hand_over(self, refused: Sequence[Refused]) -> None:
        if refused:
            self._bodies.append(_Parcel(len(refused), batch.encode(()), encode(refused)))
        if made := self._pending[:]:
            bodies = await asyncio.to_thread(_bodies, made)
            self._bodies += bodies
            del self._pending[: len(made)]
        while len(self._bodies) > BODIES_MAX:
            self._lost += self._bodies.popleft().rows
        try:
            while self._bodies:
                _, records, refusals = self._bodies[0]
                await publish(self._redis, self._gateway_id, records, refusals)
                self._bodies.popleft()
        except RedisError as away:
            log.warning("records of decisions wait for Redis: %s", away)


class _Parcel(NamedTuple):
    rows: int
    records: bytes
    refusals: bytes = b""


def _bodies(made: Sequence[DecisionMade]) -> list[_Parcel]:
    encoder = PartsEncoder()
    records = [encoder.encode(each.record()) for each in made]
    parts = [records[at : at + BODY_RECORDS] for at in range(0, len(records), BODY_RECORDS)]
    return [_Parcel(len(part), batch.encode(part)) for part in parts]
