"""Tells gateways of nodes that leave as soon as their notices are written, beside the rounds of the
controller: a round may wait for Ray, and calls must not go there meanwhile."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from workers.controller.drains import mark_leaving
from workers.nodes.folder import NodesFolder
from workers.ray.file import read_ray_file

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.1


@dataclass(slots=True)
class NoticeTeller:
    """Of the nodes of the cluster that the file names."""

    redis: Redis
    ray_file: Path
    now_ms: Callable[[], int]
    _told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except (RedisError, OSError) as away:
                log.warning("notices of nodes: %s", away)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Raises redis.RedisError. What could not be told is told at the next look."""
        place = read_ray_file(self.ray_file)
        if place is None:
            return
        notices = NodesFolder(place.nodes_folder).notices(self._told)
        if notices:
            deadlines_ms = {id: notice.deadline_ms for id, notice in notices.items()}
            await mark_leaving(self.redis, deadlines_ms, self.now_ms())
            self._told |= notices.keys()
