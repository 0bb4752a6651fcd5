"""Stop strings over a stream of text pieces. Guards the law that no stop string leaves, nor any
part of one that is completed later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passed:
    """Text that may leave, and the stop string that followed it."""

    text: str
    stopped_by: str | None = None


class StopMatcher:
    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""

    def push(self, piece: str) -> Passed:
        if not self._stops:
            return Passed(piece)
        text = self._held + piece
        matches = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if matches:
            self._held = ""
            at, stop = min(matches, key=lambda place: place[0])
            return Passed(text[:at], stop)
        keep = max(held_back(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return Passed(text[: len(text) - keep])

    def flush(self) -> str:
        """The text that was held back for a stop string that did not come."""
        text, self._held = self._held, ""
        return text


def held_back(text: str, stop: str) -> int:
    """Length of the longest end of `text` that a stop string starts with."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
