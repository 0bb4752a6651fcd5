"""Checkpoints on nodes as the controller sees them: which are on their way, and where they are.

Where no pool has a checkpoint that nodes fetch, Redis is not asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from redis.asyncio import Redis

from workers.controller.sighting import Sighting
from workers.weights.reports import FetchProgress, HeldWeights, read_fetches, read_held

REMEMBER_MS = 3_600_000


@dataclass(slots=True)
class WeightsWatch:
    """Call `look` once a round, then the others."""

    redis: Redis
    _fetches: Mapping[str, FetchProgress] = field(default_factory=dict)
    _held: Mapping[str, HeldWeights] = field(default_factory=dict)
    _spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    async def look(self, *, is_needed: bool, at_ms: int) -> None:
        """Raises redis.RedisError."""
        self._fetches, self._held = {}, {}
        if is_needed:
            self._fetches = await read_fetches(self.redis, at_ms)
            self._held = await read_held(self.redis, at_ms)
        seen = {id: (self._spans.get(id, (at_ms, at_ms))[0], at_ms) for id in self._fetches}
        recent = {id: span for id, span in self._spans.items() if at_ms - span[1] < REMEMBER_MS}
        self._spans = {**recent, **seen}

    def fetch_of(self, replica: str) -> FetchProgress | None:
        return self._fetches.get(replica)

    def fetch_ms(self, replica: str) -> int:
        """How long the fetch of a replica has been seen to go on."""
        begin_ms, end_ms = self._spans.get(replica, (0, 0))
        return end_ms - begin_ms

    def left_s(self, replica: str) -> float:
        """Of its fetch, as far as a rate was measured."""
        fetch = self._fetches.get(replica)
        return 0.0 if fetch is None else fetch.left_s or 0.0

    def holders(self, id: str) -> list[str]:
        """Nodes that hold a checkpoint, by Ray's ids of them."""
        return sorted(node for node, held in self._held.items() if id in held.ids)

    def held_by(self, node: str) -> tuple[str, ...]:
        return self._held[node].ids if node in self._held else ()

    def noted(self, sighting: Sighting) -> Sighting:
        """The sighting with whether bytes arrive for it, so that its start is not too long."""
        if not any(each.id in self._fetches for each in sighting.view.replicas):
            return sighting
        return replace(sighting, view=replace(sighting.view, is_fetching=True))
