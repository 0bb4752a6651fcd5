"""When new tokens leave the engine's thread. Every crossing costs both threads their turn at
Python's lock. So tokens that come fast wait for company. First and last tokens never wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workers.engines.base import Frame
from workers.engines.continuous.sequence import RunningSequence


class Outbox:
    def __init__(self, *, interval_s: float, now_s: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._now_s = now_s
        self._sent_s = now_s()
        self._gained: dict[RunningSequence, None] = {}

    def add(self, sequences: Iterable[RunningSequence]) -> None:
        self._gained.update(dict.fromkeys(sequences))

    @property
    def due(self) -> bool:
        if any(sequence.urgent for sequence in self._gained):
            return True
        return bool(self._gained) and self._now_s() - self._sent_s >= self._interval_s

    def frames(self) -> list[tuple[RunningSequence, Frame]]:
        """One frame for each sequence that gained tokens since the last time."""
        self._sent_s = self._now_s()
        frames = [(sequence, sequence.frame()) for sequence in self._gained]
        self._gained.clear()
        return frames
