"""What a router would have scored: the share of calls that went to the strong model against the
score of all. Pure, over judged answers whose expected qualities are known."""

from collections.abc import Sequence
from typing import NamedTuple


class JudgedCall(NamedTuple):
    """`gain` is the quality that a router expects of the strong model above that of the cheap
    one; the scores, from 0 to 1, are what was judged."""

    gain: float
    cheap: float
    strong: float


class Point(NamedTuple):
    share: float
    """Of calls that go to the strong model, from 0 to 1."""
    score: float
    """Mean over all calls."""


def curve(calls: Sequence[JudgedCall]) -> list[Point]:
    """From all calls to the cheap model to all to the strong one, those with most to gain first.
    Equal gains keep the order of the calls."""
    if not calls:
        return []
    count, total = len(calls), sum(call.cheap for call in calls)
    points = [Point(0.0, total / count)]
    for place, call in enumerate(sorted(calls, key=lambda call: -call.gain), 1):
        total += call.strong - call.cheap
        points.append(Point(place / count, total / count))
    return points


def share_needed(calls: Sequence[JudgedCall], of_strong: float) -> float:
    """The least share of strong calls that reaches that part of the strong model's mean score."""
    points = curve(calls)
    least = of_strong * points[-1].score - 1e-12
    return next(point.share for point in points if point.score >= least)


def share_by_chance(calls: Sequence[JudgedCall], of_strong: float) -> float:
    """The share that a router needs which knows nothing, so that its scores mix evenly."""
    points = curve(calls)
    cheap, strong = points[0].score, points[-1].score
    if strong <= cheap:
        return 0.0
    return min(1.0, max(0.0, (of_strong * strong - cheap) / (strong - cheap)))
