"""The calls that a worker has taken and not ended, and whether it takes more. Guards the law that a
drain sees a call or refuses it. So a caller of `refuse` and then `open` awaits nothing between the
two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from workers.deployments.errors import DRAINING, HttpError

Frame = TypeVar("Frame")


class OpenCall:
    def __init__(self, tier: str, since_s: float) -> None:
        self.tier = tier
        self.since_s = since_s
        self.begun = False

    def beginning(self, event: Callable[[Frame], bytes]) -> Callable[[Frame], bytes]:
        """A function like `event`. Its first use marks that the call has begun."""

        def first_event(frame: Frame) -> bytes:
            self.begun = True
            return event(frame)

        return first_event


class OpenCalls:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self.draining = False
        self.asleep = False
        self._now_s = now_s
        self._open: dict[str, OpenCall] = {}
        self._active_s = now_s()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def unbegun(self) -> int:
        """The number of calls of which no frame has come yet."""
        return sum(not call.begun for call in self._open.values())

    def queues(self, queued: int) -> list[dict[str, str | int]]:
        """The newest `queued` calls that have not begun, by tier: how many, and how long the first
        of them has waited."""
        waiting = [call for call in self._open.values() if not call.begun]
        by_tier: dict[str, list[OpenCall]] = {}
        for call in waiting[len(waiting) - queued :]:
            by_tier.setdefault(call.tier, []).append(call)
        now_s = self._now_s()
        return [
            {
                "tier": tier,
                "callers": len(calls),
                "waited_ms": round((now_s - calls[0].since_s) * 1000),
            }
            for tier, calls in by_tier.items()
        ]

    @property
    def idle_s(self) -> float:
        """How long ago the last call ended; 0 while one is open."""
        return 0.0 if self._open else self._now_s() - self._active_s

    def refuse(self, request_id: str | None = None) -> None:
        """Refuse a call that is not taken. Raises HttpError while the worker drains or sleeps, or
        while a call of this id is open."""
        if self.draining or self.asleep:
            raise HttpError(503, DRAINING, "this worker takes no new calls")
        if request_id in self._open:
            raise HttpError(409, "request_in_flight", f"{request_id} is already being answered")

    @contextmanager
    def open(self, request_id: str, tier: str = "default") -> Iterator[OpenCall]:
        assert request_id not in self._open, "a call is refused first"
        call = self._open[request_id] = OpenCall(tier, self._now_s())
        try:
            yield call
        finally:
            del self._open[request_id]
            self._active_s = self._now_s()
