"""Starts parts as soon as what they need is ready, keeps them running, stops them in reverse.

Knows processes only: what a part is stands in its PartSpec. Everything a user reads goes through
`say`. Whoever starts `run` owns it; stopping is an event, so that a signal can set it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.supervisor.errors import CannotStart
from gateway.supervisor.memory import Excess, excess, excess_words, memory_bytes
from gateway.supervisor.part import Part, PartDied, PartSpec, set_aside
from gateway.supervisor.restarts import Backoff, Life, has_worked, pause_s
from workers.ray.session import Session

PROGRESS_EVERY_S = 5.0
LOGS_EVERY_S = 10.0
MEMORY_EVERY_S = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long, how often, how large: see [supervisor] in sluice.toml."""

    ready_timeout_s: float = 120.0
    start_attempts: int = 3
    stop_timeout_s: float = 15.0
    restart_backoff_s: float = 0.5
    restart_backoff_max_s: float = 15.0
    steady_after_s: float = 2.0
    log_bytes_max: int = 32 << 20


class Supervisor:
    """`changed` is told the session of every running part, whenever one comes or goes."""

    def __init__(
        self,
        specs: Sequence[PartSpec],
        logs: Path,
        *,
        bounds: Bounds,
        say: Say,
        on_change: Callable[[Mapping[str, Session]], None],
        now: Callable[[], float],
    ) -> None:
        self._specs = list(specs)
        self._logs = logs
        self._bounds = bounds
        self._say = say
        self._changed = on_change
        self._now = now
        self._running: dict[str, Part] = {}
        self._ready = {spec.name: asyncio.Event() for spec in specs}
        self._ready_s: dict[str, float] = {}
        self._backoff = Backoff(
            bounds.restart_backoff_s, bounds.restart_backoff_max_s, bounds.steady_after_s
        )

    async def run(self, on_ready: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        """Start everything, call `on_ready` once it is, and stay until `stop` is set.

        Raises CannotStart if a part never becomes ready, or whatever `on_ready` raises. On every
        way out nothing is left running.
        """
        works = [self._keep(spec) for spec in self._specs]
        works += [self._bound_logs(), self._open(on_ready)]
        tasks = [asyncio.create_task(work) for work in works]
        stopped = asyncio.create_task(_set(stop))
        try:
            waiting = {stopped, *tasks}
            while stopped in waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # raises what went wrong
        finally:
            await _cancel([stopped, *tasks])
            await self._stop_all()

    @property
    def running(self) -> dict[str, Session]:
        """By part; the session's id is the pid of the part."""
        return {name: part.session for name, part in self._running.items()}

    async def _open(self, on_ready: Callable[[], Awaitable[None]]) -> None:
        for spec in self._specs:
            if spec.wanted is None:
                await self._ready[spec.name].wait()
        await on_ready()

    async def _keep(self, spec: PartSpec) -> None:
        """One part's lives: start, ready, wait for its end, start again."""
        for name in spec.needs:
            await self._ready[name].wait()
        if spec.wanted is not None:
            await spec.wanted()
        in_vain = 0
        while True:
            started_s = self._now()
            how = await self._live(spec, started_s)
            if how is None:
                return
            life = self._life(spec, started_s)
            in_vain = 0 if has_worked(life, self._backoff) else in_vain + 1
            is_needed = spec.wanted is None and not self._ready[spec.name].is_set()
            if is_needed and in_vain >= self._bounds.start_attempts:
                raise CannotStart(f"{spec.name} does not start: {how} (log: {self._log(spec)})")
            wait_s = pause_s(in_vain, self._backoff)
            when = f"in {wait_s:g} s" if wait_s else "at once"
            self._say(f"{spec.name}: ended ({how}), starting again {when}")
            await asyncio.sleep(wait_s)

    def _life(self, spec: PartSpec, started_s: float) -> Life:
        ready_s = self._ready_s.pop(spec.name, None)
        if ready_s is None:
            return Life(self._now() - started_s, None)
        return Life(ready_s - started_s, self._now() - ready_s)

    async def _live(self, spec: PartSpec, started_s: float) -> str | None:
        """Run it once; returns how it ended, None if it was to end.

        Cancelled, it leaves the part among the running ones, for `_stop_all`.
        """
        try:
            part = await Part.start(spec, self._log(spec), self._bounds.log_bytes_max)
        except OSError as missing:
            return f"{spec.argv[0]}: {missing.strerror}"
        self._running[spec.name] = part
        self._changed(self.running)
        how = await self._watch(part, started_s)
        await part.stop(self._bounds.stop_timeout_s)  # what it left of its session, too
        del self._running[spec.name]
        self._changed(self.running)
        return how

    async def _watch(self, part: Part, started_s: float) -> str | None:
        progress = asyncio.create_task(self._tell_progress(part.spec, started_s))
        try:
            await asyncio.wait_for(part.wait_ready(), self._bounds.ready_timeout_s)
        except TimeoutError:
            bound_s = self._bounds.ready_timeout_s
            return f"not ready after {bound_s:g} s (ready_timeout_s of [supervisor])"
        except PartDied as died:
            return str(died)
        finally:
            progress.cancel()
        self._say(f"{part.spec.name}: ready ({self._now() - started_s:.1f} s)")
        self._ready[part.spec.name].set()
        self._ready_s[part.spec.name] = self._now()
        if part.spec.once:
            return None
        return await self._end_of(part)

    async def _end_of(self, part: Part) -> str:
        """How it ended, by itself or because it took more memory than it may have."""
        bytes_max = part.spec.memory_bytes_max
        if bytes_max is None:
            return _status_text(await part.wait())
        ended, why, end_s = asyncio.create_task(part.wait()), "", math.inf
        try:
            while not (await asyncio.wait({ended}, timeout=MEMORY_EVERY_S))[0]:
                used = await asyncio.to_thread(memory_bytes, part.pid)
                much = excess(used, bytes_max)
                if much is not Excess.NONE and not why:
                    why = excess_words(used, bytes_max)
                    end_s = self._now() + self._bounds.stop_timeout_s
                    self._say(f"{part.spec.name}: {why}: it is to end")
                    part.tell_to_end()
                if much is Excess.AT_ONCE or self._now() > end_s:
                    part.kill()
            return why or _status_text(ended.result())
        finally:
            ended.cancel()

    async def _tell_progress(self, spec: PartSpec, started_s: float) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            self._say(f"{spec.name}: {spec.doing} ... {self._now() - started_s:.0f} s")

    async def _bound_logs(self) -> None:
        while True:
            await asyncio.sleep(LOGS_EVERY_S)
            for part in list(self._running.values()):
                with suppress(OSError):  # on a full disk it is tried again
                    set_aside(part.log, self._bounds.log_bytes_max)

    async def _stop_all(self) -> None:
        """Reverse order: a part is stopped once nobody that needs it runs any more."""
        ends = {name: asyncio.Event() for name in self._running}
        async with asyncio.TaskGroup() as stops:
            for part in list(self._running.values()):
                needed_by = [
                    ends[spec.name]
                    for spec in self._specs
                    if part.spec.name in self._all_needs(spec) and spec.name in ends
                ]
                stops.create_task(self._stop_after(part, needed_by, ends[part.spec.name]))

    async def _stop_after(
        self, part: Part, users: Sequence[asyncio.Event], end: asyncio.Event
    ) -> None:
        for other in users:
            await other.wait()
        await part.stop(self._bounds.stop_timeout_s)
        self._say(f"{part.spec.name}: stopped")
        self._running.pop(part.spec.name, None)
        self._changed(self.running)
        end.set()

    def _all_needs(self, spec: PartSpec) -> set[str]:
        by_name = {each.name: each for each in self._specs}
        names: set[str] = set()
        for name in spec.needs:
            names |= {name} | self._all_needs(by_name[name])
        return names

    def _log(self, spec: PartSpec) -> Path:
        return self._logs / f"{spec.name}.log"


def _status_text(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
