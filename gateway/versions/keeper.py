"""Follows the active version of a document in SQL, and tells other gateways which one runs here.

Polls one row of an index. What cannot be run leaves the version before it in force, loudly: in the
log, in the metrics and in what is published of this gateway. Guards the bound of 5 s between an
activation and its calls, whatever notification is lost.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Generic, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.recovery.primer import GATEWAYS_KEY
from billing.types import UNREADABLE
from gateway.call.recovery import SILENT_MS
from gateway.versions.store import VersionStore
from gateway.versions.tables import Kind
from routing.types import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")


class BrokenVersion(msgspec.Struct, frozen=True):
    """The active version, where a gateway cannot run it, and why."""

    version: int
    message: str


class RunningVersion(msgspec.Struct, frozen=True):
    """What one gateway runs. `since_us` is None where it has not said yet."""

    id: str
    version: int | None = None
    since_us: int | None = None
    broken: BrokenVersion | None = None


class Active(Generic[T]):
    """What a gateway runs. A call takes it once and keeps it to its end. `current` never waits and
    never fails: whoever follows SQL puts the next one here."""

    def __init__(self, first: T) -> None:
        self.current = first

    def activate(self, value: T) -> None:
        self.current = value


class VersionKeeper(Generic[T]):
    """`load` makes of a document and its version what is put into `active`. `first_version` is the
    one that runs until SQL names one: 0 where there is none."""

    def __init__(
        self,
        kind: Kind,
        store: Store,
        redis: Redis,
        *,
        active: Active[T],
        load: Callable[[str, int], T],
        first_version: int,
        gateway_id: str,
        poll_s: float,
        clock: Clock,
    ) -> None:
        self._name = kind.name
        self._store = VersionStore(store, kind)
        self._redis = redis
        self._active = active
        self._load = load
        self.version = first_version
        """The one that runs here."""
        self._gateway_id = gateway_id
        self._poll_s = poll_s
        self._clock = clock
        self._seen: int | None = None
        self._since_us = 0
        self.broken: BrokenVersion | None = None

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._poll_s)

    async def refresh(self) -> None:
        """Look once; what is out of reach leaves the version as it is, and is logged."""
        try:
            await self._follow()
        except SQLAlchemyError as away:
            log.error("%s: kept as it was: %s", self._name, away)
        try:
            await self._tell()
        except RedisError as away:
            words = "%s: other gateways do not hear which one runs here: %s"
            log.warning(words, self._name, away)

    @property
    def running(self) -> RunningVersion:
        return RunningVersion(self._gateway_id, self.version, self._since_us, self.broken)

    async def gateways(self) -> Sequence[RunningVersion]:
        """What each gateway that is alive runs, by id. Raises RedisError."""
        oldest_ms = round(self._clock() * 1000) - SILENT_MS
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zrangebyscore(GATEWAYS_KEY, oldest_ms, "+inf")
            [alive] = await pipe.execute()
            others = sorted({each.decode() for each in alive} - {self._gateway_id})
            for each in others:
                pipe.get(self._key(each))
            texts = await pipe.execute()
        versions = [_read(name, text) for name, text in zip(others, texts, strict=True)]
        return sorted([*versions, self.running], key=lambda gateway: gateway.id)

    async def _follow(self) -> None:
        active = await asyncio.to_thread(self._store.active)
        if active is None or active.number == self._seen:
            return
        try:
            value = await asyncio.to_thread(self._loaded, active.version)
        except SQLAlchemyError:
            raise
        except Exception as wrong:  # whatever it is, it is wrong on every gateway at once
            self.broken = BrokenVersion(active.version, f"{type(wrong).__name__}: {wrong}")
            words = "%s: version %s is broken, %s stays: %s"
            log.error(words, self._name, active.version, self.version, wrong)
        else:
            self._active.activate(value)
            self.version = active.version
            self._since_us, self.broken = round(self._clock() * 1e6), None
            log.info("%s: version %s runs", self._name, active.version)
        self._seen = active.number

    def _loaded(self, version: int) -> T:
        stored = self._store.version(version)
        if stored is None or sha256(stored.row.document.encode()).hexdigest() != stored.row.sha256:
            raise ValueError("the stored document is not the one that was sent")
        return self._load(stored.row.document, version)

    async def _tell(self) -> None:
        running = msgspec.json.encode(self.running)
        await self._redis.set(self._key(self._gateway_id), running, px=SILENT_MS)

    def _key(self, gateway_id: str) -> str:
        return f"sluice:{self._name}:{gateway_id}"


def _read(gateway_id: str, text: bytes | None) -> RunningVersion:
    """One that has said nothing, or nothing that this version understands, runs nobody knows
    what."""
    try:
        return msgspec.json.decode(text or b"", type=RunningVersion)
    except UNREADABLE:
        return RunningVersion(gateway_id)
