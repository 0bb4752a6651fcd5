"""Where the highest leader is kept: in a file of this machine, or in Ray's own store.

The file outlives the cluster. Ray's store lives as long as the applications that the leader wrote,
and is there for a cluster whose head is another machine.
"""

import asyncio
import os
from pathlib import Path

import msgspec
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

from workers.ray.serve_api import RayUnavailable
from workers.writer.writes import NOBODY, Leader

NAMESPACE = b"sluice"


class LeaderFile:
    """Written whole: to the disk, then in place of the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> Leader:
        """Raises RayUnavailable for a file that says nothing."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Leader)
        except FileNotFoundError:
            return NOBODY
        except msgspec.DecodeError as odd:
            words = f"{self._path} is broken, remove it while no controller runs: {odd}"
            raise RayUnavailable(words) from odd

    async def put(self, leader: Leader) -> None:
        await asyncio.to_thread(self._put, leader)

    def _put(self, leader: Leader) -> None:
        beside = self._path.with_suffix(".tmp")
        with open(beside, "wb") as target:
            target.write(msgspec.json.encode(leader))
            target.flush()
            os.fsync(target.fileno())
        beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class LeaderInRay:
    """Of one owner of several that may share a cluster."""

    def __init__(self, owner: str) -> None:
        self._key = f"leader-{owner}".encode()

    async def read(self) -> Leader:
        raw = await asyncio.to_thread(_internal_kv_get, self._key, namespace=NAMESPACE)
        return NOBODY if raw is None else msgspec.json.decode(raw, type=Leader)

    async def put(self, leader: Leader) -> None:
        value = msgspec.json.encode(leader)
        await asyncio.to_thread(
            _internal_kv_put, self._key, value, overwrite=True, namespace=NAMESPACE
        )
