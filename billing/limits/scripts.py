"""Runs the Lua scripts of this folder, bound to the Redis process that loaded them.

The run id of the server is part of the script text. A Redis that restarted or failed over has lost
its scripts and has another run id. So the first call to it ends in NOSCRIPT, and the run id is read
again. Shards that were opened for the former process count as unprimed from then on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from billing.limits.keys import LAYOUT
from billing.limits.link import Link, NotSent
from billing.limits.packing import Arg
from billing.limits.shared import Shared
from billing.limits.silence import lived
from billing.limits.state import CONSTANTS
from billing.limits.types import LimitsUnavailable, NotAsked, Silent

PARTS = {
    "admit": ("common", "meter", "purse", "lapsed", "spent"),
    "renew": ("common", "meter", "purse", "lapsed", "spent"),
    "extend": ("common", "meter"),
    "settle": ("common", "meter", "purse", "lapsed"),
    "reannounce": ("common", "meter", "purse", "holding"),
    "prime": ("common", "meter", "purse", "holding"),
}
"""The scripts, and what stands before each."""
_LOAD_TRIES = 3
_NAME = re.compile(r"\b[A-Z][A-Z_]+\b")
_RUN_ID = re.compile(r"[0-9a-f]{40}")


class Scripts:
    """Every call is bounded by `timeout_s` of silence. It raises LimitsUnavailable when Redis fails
    it, and Silent when Redis said nothing.

    `clock_lua` replaces Redis' own time. It is the source of a function `now_us()`.
    """

    def __init__(self, redis: Redis, *, timeout_s: float, clock_lua: str | None = None) -> None:
        self._redis = redis
        self._timeout_s = timeout_s
        self._link = Link(redis, timeout_s=timeout_s)
        clock = clock_lua or _read("clock")
        self._sources = {
            name: "\n".join((clock, *map(_read, parts), _read(name)))
            for name, parts in PARTS.items()
        }
        self._shas: Mapping[str, str] = {}
        self._loaded = Shared(self._load_in_time)

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Arg]) -> Any:
        for _ in range(_LOAD_TRIES):
            sha = self._shas.get(name)
            if sha is not None:
                try:
                    return await self._evaluate(sha, keys, args)
                except NoScriptError:
                    if self._shas.get(name) != sha:
                        continue  # another has seen to it meanwhile
            await self._loaded()
        raise LimitsUnavailable("redis keeps forgetting its scripts")

    async def _evaluate(self, sha: str, keys: Sequence[str], args: Sequence[Arg]) -> Any:
        """Run EVALSHA, packed in C. The link bounds its time, and it is safe to repeat."""
        command: Any = ("EVALSHA", sha, len(keys), *keys, *args)
        try:
            return await self._link.ask(hiredis.pack_command(command))
        except NoScriptError:
            raise
        except NotSent as nothing:
            raise NotAsked(str(nothing)) from nothing
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error

    async def prepare(self) -> None:
        """Connect and load the scripts beforehand, so that the first calls, which may be many, need
        not."""
        await self._loaded()
        try:
            await self._link.ask(hiredis.pack_command(("PING",)))
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error

    async def _load_in_time(self) -> None:
        """Load the scripts once for all callers that find them missing. There may be a thousand at
        once."""
        async with self.bounded():
            await self.load()

    async def load(self) -> None:
        """Load every script, under its own run id, into the process that answers now.

        SCRIPT LOAD is not used. Redis before 7 writes it into the append-only file, and a restarted
        process would know scripts with its predecessor's run id.
        """
        for _ in range(_LOAD_TRIES):
            run_id = await self.read_run_id()
            texts = {name: _bound(source, run_id) for name, source in self._sources.items()}
            if all([await self._redis.eval(text, 0) for text in texts.values()]):
                self._shas = {
                    name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
                    for name, text in texts.items()
                }
                return
            await self._redis.script_flush()  # restarted in between: it must not keep these
        raise LimitsUnavailable("redis keeps restarting")

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        try:
            async with lived(self._timeout_s):
                yield
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error

    async def read_run_id(self) -> str:
        run_id = (await self._redis.info("server"))["run_id"]
        if not _RUN_ID.fullmatch(run_id):
            raise LimitsUnavailable(f"not a run id: {run_id!r}")
        return str(run_id)


def _unavailable(error: Exception) -> LimitsUnavailable:
    is_silent = isinstance(error, RedisTimeoutError | TimeoutError)
    kind = Silent if is_silent else LimitsUnavailable
    return kind(str(error) or "redis did not answer in time")


@lru_cache(maxsize=64)
def _bound(source: str, run_id: str) -> str:
    """A script for one Redis process. Its constants are written out, because a local would cost
    time."""
    constants = CONSTANTS | {
        "RUN": f"'{run_id}'",
        "LAYOUT": f"'{LAYOUT}'",
        "OPEN": f"'{LAYOUT}:open:{run_id}:'",
    }
    return _NAME.sub(lambda name: constants.get(name[0], name[0]), source)


@cache
def _read(name: str) -> str:
    return files("billing.limits").joinpath(f"{name}.lua").read_text()
