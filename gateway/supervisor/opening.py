"""The last stretch of `sluice up`: workers that should be warm are, and a tenant can call.

Reads what everybody reads: the fleet that the controller publishes, and the gateway's own list of
models, asked for with the tenant's key.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.catalog.external import LITELLM
from gateway.supervisor.errors import CannotStart

FLEET_KEY = "sluice:fleet"
LOOK_EVERY_S = 0.1
PROGRESS_EVERY_S = 5.0
HTTP_TIMEOUT_S = 5.0

Say = Callable[[str], None]


class _ReplicaState(msgspec.Struct):
    state: str


class _PoolState(msgspec.Struct):
    name: str
    reason: str = ""
    blocked: str | None = None
    replicas: tuple[_ReplicaState, ...] = ()

    @property
    def is_warm(self) -> bool:
        return any(replica.state == "WARM" for replica in self.replicas)

    @property
    def story(self) -> str:
        states = " ".join(replica.state for replica in self.replicas) or "COLD"
        return f"{self.name} {states}{f' ({self.blocked})' if self.blocked else ''}"


class _FleetState(msgspec.Struct):
    seq: int
    pools: tuple[_PoolState, ...] = ()


async def warm_pools(
    redis: Redis, names: Sequence[str], *, timeout_s: float, say: Say, now: Callable[[], float]
) -> list[str]:
    """Wait until each named pool has a warm replica; returns those that had none in time.

    A snapshot left by an earlier run does not count: its number has to move first.
    """
    started_s = last_line_s = now()
    before: int | None = None
    cold = list(names)
    while cold and now() - started_s < timeout_s:
        fleet = await _read(redis)
        if fleet is not None and before is None:
            before = fleet.seq
        if fleet is not None and fleet.seq != before:
            cold = _tell_warm(fleet, cold, say, now() - started_s)
        if cold and now() - last_line_s >= PROGRESS_EVERY_S:
            last_line_s = now()
            say(f"pools: {_stories(fleet, cold)} ... {last_line_s - started_s:.0f} s")
        await asyncio.sleep(LOOK_EVERY_S)
    return cold


def _tell_warm(fleet: _FleetState, cold: Sequence[str], say: Say, elapsed_s: float) -> list[str]:
    warm = {pool.name for pool in fleet.pools if pool.is_warm}
    for name in cold:
        if name in warm:
            say(f"pool {name}: warm ({elapsed_s:.1f} s)")
    return [name for name in cold if name not in warm]


def _stories(fleet: _FleetState | None, cold: Sequence[str]) -> str:
    stories = [pool.story for pool in fleet.pools if pool.name in cold] if fleet else []
    return ", ".join(stories) or "not published yet"


async def _read(redis: Redis) -> _FleetState | None:
    try:
        raw = await redis.get(FLEET_KEY)
        return None if raw is None else msgspec.json.decode(raw, type=_FleetState)
    except (RedisError, msgspec.MsgspecError):
        return None


async def served_models(base_url: str, api_key: str, *, attempts: int = 20) -> list[str]:
    """The models this key may use, as the gateway lists them. Raises CannotStart."""
    for attempt in range(attempts):
        try:
            return await asyncio.to_thread(_ask_models, base_url, api_key)
        except (OSError, ValueError, KeyError, TypeError) as failed:
            if attempt == attempts - 1:
                raise CannotStart(f"the gateway does not list its models: {failed}") from failed
            await asyncio.sleep(0.25)
    raise AssertionError("attempts is at least one")


async def blocked_pools(base_url: str, admin_key: str) -> list[str]:
    """External pools that take no call, each with the reason; none where nobody answers: what is
    told here stands in the log and the console, too."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        rows = await asyncio.to_thread(_ask, f"{base_url}/admin/v1/pools", admin_key)
        return [
            f"pool {row['name']} takes no call: {row['blocked']}"
            for row in rows
            if row["blocked"] and row["base_url"]
        ]
    return []


async def wait_for_adapters(base_url: str, admin_key: str, every_s: float) -> None:
    """Until a pool has an adapter that is a process."""
    while True:
        with suppress(OSError, ValueError, KeyError, TypeError):
            rows = await asyncio.to_thread(_ask, f"{base_url}/admin/v1/pools", admin_key)
            if any(row["adapter"] == LITELLM and row["enabled"] for row in rows):
                return
        await asyncio.sleep(every_s)


def _ask_models(base_url: str, api_key: str) -> list[str]:
    return [str(model["id"]) for model in _ask(f"{base_url}/v1/models", api_key)]


def _ask(url: str, key: str) -> list[dict[str, Any]]:
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S) as reply:
        rows: list[dict[str, Any]] = json.load(reply)["data"]
        return rows
