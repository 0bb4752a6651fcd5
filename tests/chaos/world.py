"""Everything that money runs through, as real processes that may be harmed: a Redis, a database,
a ledger and several edges that make calls without end; and an auditor who listens.

Owns starting, ending, healing and looking; which harm is done stands in `faults`, what must hold
in `auditor`. Every wait has a bound, and every process ends with the test run.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from redis.exceptions import RedisError

from billing.db.engine import open_store
from billing.ledger.report import Outcome
from billing.limits.holds import Holds
from billing.limits.keys import SHARDS, due_key, usage_key
from billing.tasks import end
from billing.verify import verify_all
from tests.chaos import edge_process, ledger_process
from tests.chaos.auditor import Auditor, Books, Client
from tests.chaos.databases import Database
from tests.chaos.knobs import Knobs
from tests.nursery import Child
from tests.redis_server import RedisServer
from tests.stack_process import environment

EDGES = ("gw-1", "gw-2")
LEDGER = "ledger"
READY_WITHIN_S = 120.0
IDLE_WITHIN_S = 120.0
QUIET_WITHIN_S = 120.0
DIES_WITHIN_S = 120.0
SLEEPS_S = 2.5
"""Longer than the leases of an edge, so that the reaper comes by."""
LOOK_EVERY_S = 0.05
DELIVERED_MAX = 20_000
"""The last records that came by, to be delivered again; an hour has too many for memory."""
AUDIT_EVERY_S = 0.3
"""An audit reads all there is."""
SETTINGS = {
    "BLOCK_MS": "50",
    "LINGER_MS": "0",
    "RETRY_AFTER_S": "0.2",
    "OUTAGE_PAUSE_S": "0.1",
    "MARK_INTERVAL_S": "0.5",
    "REAP_INTERVAL_S": "0.1",
    "ORPHAN_AFTER_S": "1.0",
    "SPOOL_INTERVAL_S": "0.3",
    "PRIME_INTERVAL_S": "0.05",
    "RECOVERY_GRACE_S": "1.0",
    "GATEWAY_SILENT_S": "1.0",
}


@dataclass
class Part:
    """A process, and what it says until it ends."""

    process: Child
    knobs: Knobs
    listening: asyncio.Task[None] | None = None
    said: set[str] = field(default_factory=set)


@dataclass
class World:
    folder: Path
    redis: RedisServer
    database: Database
    seed: int
    callers: int = 4
    pause_s: float = 0.05
    quiet_within_s: float = QUIET_WITHIN_S
    client: Client = field(init=False)
    auditor: Auditor = field(init=False)
    books: Books = field(init=False)
    parts: dict[str, Part] = field(default_factory=dict)
    lives: int = 0
    delivered: deque[tuple[str, dict[bytes, bytes]]] = field(
        default_factory=lambda: deque(maxlen=DELIVERED_MAX)
    )
    poisoned: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = Client(self.seed)
        self.auditor = Auditor(self.database.url, self.client)

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    def knobs(self, name: str) -> Knobs:
        return Knobs(self.folder / f"{name}.knobs")

    # --- life ------------------------------------------------------------------------------------

    async def start_ledger(
        self, name: str = LEDGER, *, consumer: str = "ledger", die: str = ""
    ) -> None:
        env = environment() | {f"SLUICE_LEDGER__{key}": said for key, said in SETTINGS.items()}
        env |= {
            "SLUICE_DATA": str(self.folder),
            "SLUICE_REDIS_URL": self.redis.url,
            "SLUICE_SQL_URL": self.database.url,
            "SLUICE_LEDGER__CONSUMER": consumer,
        }
        knobs = self.folder / f"{name}.knobs"
        await self._start(name, Child(ledger_process.run, die, knobs, env=env))

    async def start_edge(
        self, name: str, *, die: str = "", callers: int | None = None, bills_half: bool = False
    ) -> None:
        """`die` says at which step it kills itself; without callers it only recovers."""
        self.lives += 1
        asked = edge_process.Asked(
            name=name,
            life=self.lives,
            seed=self.seed,
            callers=self.callers if callers is None else callers,
            pause_s=self.pause_s,
            spool=str(self.spool),
            redis=self.redis.url,
            sql=self.database.url,
            knobs=str(self.folder / f"{name}.knobs"),
            die=die,
            bills_half=bills_half,
        )
        await self._start(name, Child(edge_process.run, asked, env=environment()))

    async def _start(self, name: str, process: Child) -> None:
        assert name not in self.parts, f"{name} runs already"
        knobs = self.knobs(name)
        await process.start(self.folder / f"{name}.log")
        part = self.parts[name] = Part(process, knobs)
        part.listening = asyncio.create_task(self._listen(part))

    async def _listen(self, part: Part) -> None:
        """What a client was told, it was told: the pipe is read to its end whatever dies."""
        async for line in part.process.stdout:
            if not line.startswith(b"["):
                part.said.add(line.decode().strip())
                continue
            kind, *rest = words = json.loads(line)
            if kind in ("ready", "idle"):
                part.said.add(kind)
            else:
                self.client.hear((kind, *rest))
            del words

    async def kill9(self, name: str) -> None:
        self.parts[name].process.kill()
        await self.ended(name)

    async def dies_at(self, name: str, *steps: str) -> None:
        """The edge dies at each of these steps, and comes back at once or after the reaper."""
        await self.kill9(name)
        for number, step in enumerate(steps):
            await self.start_edge(name, die=step)
            status = await self.ended(name, DIES_WITHIN_S)
            assert status == -signal.SIGKILL, f"{step}: {status}: {self.log_of(name)}"
            if number % 2:
                await asyncio.sleep(SLEEPS_S)
        await self.start_edge(name)

    async def ended(self, name: str, within_s: float = READY_WITHIN_S) -> int:
        """Until it has ended, by itself or not, and all it said was heard; its exit status."""
        part = self.parts[name]
        async with asyncio.timeout(within_s):
            status = await part.process.wait()
            if part.listening is not None:
                await part.listening
        del self.parts[name]
        return status

    def signal(self, name: str, how: signal.Signals) -> None:
        self.parts[name].process.send_signal(how)

    async def said(self, name: str, word: str, within_s: float = READY_WITHIN_S) -> None:
        async def is_said() -> bool:
            part = self.parts[name]
            if part.process.returncode is not None and word not in part.said:
                raise AssertionError(f"{name} ended: {self.log_of(name)}")
            return word in part.said

        await self.until(is_said, within_s, lambda: f"{name} to say {word}: {self.log_of(name)}")

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    async def until(
        self,
        look: Callable[[], Awaitable[bool]],
        within_s: float,
        what: Callable[[], object] = lambda: "it",
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        deadline = time.monotonic() + within_s
        while not await look():
            if time.monotonic() > deadline:
                raise AssertionError(f"seed {self.seed}: waited {within_s:g} s for {what()}")
            await asyncio.sleep(every_s)

    async def heard(self, more: int, within_s: float = READY_WITHIN_S) -> None:
        """Until so many more calls were answered whole."""
        wanted = self.whole + more

        async def enough() -> bool:
            return self.whole >= wanted

        await self.until(enough, within_s, lambda: f"{wanted} answers, {self.whole} so far")

    @property
    def whole(self) -> int:
        return sum(heard.whole is not None for heard in self.client.calls.values())

    # --- what is delivered -----------------------------------------------------------------------

    async def tap(self) -> None:
        """Remember every record that comes by, until cancelled."""
        client: Any = self.redis.client()
        seen = {usage_key(shard): "0-0" for shard in range(SHARDS)}
        while True:
            try:
                for key, entries in await client.xread(seen, count=500):
                    seen[key.decode()] = entries[-1][0].decode()
                    self.delivered += [(key.decode(), dict(fields)) for _, fields in entries]
            except (RedisError, OSError):
                await client.connection_pool.disconnect()
            await asyncio.sleep(0.02)

    async def redeliver(self, rng: Random, share: float = 1.0) -> int:
        """Records that came by come again, in any order."""
        sound = [each for each in self.delivered if not self._is_poison(each[1])]
        again = [each for each in sound if rng.random() < share]
        rng.shuffle(again)
        client: Any = self.redis.client()
        try:
            pipe = client.pipeline(transaction=False)
            for key, fields in again:
                pipe.xadd(key, fields)
            await pipe.execute()
        finally:
            await client.aclose()
        return len(again)

    def _is_poison(self, fields: dict[bytes, bytes]) -> bool:
        return fields.get(b"r", b"").decode(errors="replace") in self.poisoned

    # --- the end ---------------------------------------------------------------------------------

    async def finish(self, rng: Random) -> Books:
        """Heal everything, let it come to rest, and have it audited; then replay it all, which
        must change nothing.

        Records that were lost on their way to SQL are delivered again first: one of those may say
        more than what is on record, and so change it, once.
        """
        await self._heal()
        await asyncio.gather(*map(self._come_to_rest, EDGES))
        await self._audited()
        await self.redeliver(rng)
        await self._until_read()
        books = await self._audited()
        await asyncio.gather(*map(self._come_to_rest, EDGES))
        await self.redeliver(rng)
        await self._until_read()
        again = await asyncio.to_thread(self.auditor.read)
        assert again.digest == books.digest, f"seed {self.seed}: a replay changed the ledger"
        await self._verified()
        return books

    async def supervise(self) -> None:
        """A part that ended by itself, for want of a database when it started, say, is started."""
        for name in (LEDGER, *EDGES):
            if name in self.parts and self.parts[name].process.returncode is not None:
                print(f"{name} ended: {self.log_of(name)[-300:]}")
                await self.ended(name)
                await (self.start_ledger() if name == LEDGER else self.start_edge(name))

    async def _heal(self) -> None:
        await self.supervise()
        if LEDGER not in self.parts:
            await self.start_ledger()
        for part in self.parts.values():
            part.knobs.clock_off_s = 0.0
            part.knobs.disk_is_full = False
        for name in (LEDGER, *EDGES):
            self.knobs(name).clock_off_s = 0.0
            self.knobs(name).disk_is_full = False

    async def _come_to_rest(self, name: str) -> None:
        """A gateway that is stopped settles what it owes; one that died comes back to do it."""
        if name in self.parts and self.parts[name].process.returncode is not None:
            await self.ended(name)
        if name not in self.parts:
            await self.start_edge(name, callers=0)
        await self.said(name, "ready")
        self.signal(name, signal.SIGTERM)
        await self.said(name, "idle", IDLE_WITHIN_S)
        status = await self.ended(name)
        assert status == 0, f"{name} ended with {status}: {self.log_of(name)}"

    async def _audited(self) -> Books:
        """Until every law holds; what is on its way is given time to arrive."""
        state: dict[str, Any] = {}

        async def holds() -> bool:
            books = await asyncio.to_thread(self.auditor.read)
            breaks = self.auditor.breaks(books, poisoned=self.poisoned)
            breaks = breaks or await self._breaks_in_redis(books)
            state.update(books=books, breaks=breaks)
            return not breaks

        await self.until(
            holds, self.quiet_within_s, lambda: "\n".join(state.get("breaks", [])), AUDIT_EVERY_S
        )
        found: Books = state["books"]
        return found

    async def _breaks_in_redis(self, books: Books) -> list[str]:
        """I11, and that nothing is held."""
        redis = self.redis.client()
        try:
            holds = Holds(redis)
            due = [int(await redis.zcard(due_key(shard))) for shard in range(SHARDS)]
            found = [f"{count} holds of shard {n} are open" for n, count in enumerate(due) if count]
            counted: dict[str, int] = {}
            for shard in range(SHARDS):
                for scope, spent in (await holds.spent(shard)).items():
                    if spent.total_nanousd:
                        counted[scope] = spent.total_nanousd
            expected = self.auditor.spent(books)
            if counted != expected:
                found.append(f"Redis has {counted} spent, the ledger {expected}")
        except (RedisError, OSError) as away:
            found = [f"Redis is away: {away}"]
        finally:
            await redis.aclose()
        return found

    async def _until_read(self) -> None:
        """Until the writer has read and acknowledged every record there is."""
        client: Any = self.redis.client()

        async def is_read() -> bool:
            for shard in range(SHARDS):
                stream = await client.xinfo_stream(usage_key(shard))
                (group,) = await client.xinfo_groups(usage_key(shard))
                if group["last-delivered-id"] != stream["last-generated-id"] or group["pending"]:
                    return False
            return True

        try:
            await self.until(is_read, self.quiet_within_s, lambda: self.log_of(LEDGER))
        finally:
            await client.aclose()

    async def _verified(self) -> None:
        """What the product itself says, poison apart."""
        store = open_store(self.database.url)
        redis = self.redis.client()
        try:
            report = await verify_all(
                store,
                now_us=round(time.time() * 1e6),
                spool_root=self.spool,
                redis=redis,
                hold_age_max_s=0.0,
            )
        finally:
            await redis.aclose()
            store.close()
        broken = [
            check
            for check in report.checks
            if check.outcome is Outcome.BROKEN
            and not (self.poisoned and check.name == "no_dead_letter")
        ]
        assert not broken, f"seed {self.seed}: {broken}"


@asynccontextmanager
async def running(world: World, *, edges: tuple[str, ...] = EDGES) -> AsyncIterator[World]:
    """Ledger and edges at work, and ended afterwards. The seed is printed."""
    print(f"seed {world.seed}")
    tap = asyncio.create_task(world.tap())
    try:
        await world.start_ledger()
        for name in edges:
            await world.start_edge(name)
        for name in edges:
            await world.said(name, "ready")
        yield world
    except BaseException:
        for log in sorted(world.folder.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}")
        raise
    finally:
        await end(tap)
        for name in list(world.parts):
            world.signal(name, signal.SIGCONT)
            await world.kill9(name)
