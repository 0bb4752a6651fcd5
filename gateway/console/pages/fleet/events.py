"""Nodes, losses and moves of the last hour as lanes of a time line. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from billing.queries import MovedCall
from gateway.console.formatting import DisplayTime, instant, plural, since
from workers.controller.fleet_publisher import NodeEntry
from workers.nodes.node_type import NodeState

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000
NARROWEST = 0.4
"""Of a lane that is 100 wide: what is shorter is drawn so wide."""
LANES_MAX = 40


@dataclass(frozen=True, slots=True)
class LaneSpan:
    x: float
    width: float
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One node, or the moves of all calls."""

    name: str
    words: str
    spans: tuple[LaneSpan, ...]


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A call that was moved: from which pool, and when."""

    rid: str
    pool: str
    at: DisplayTime


@dataclass(frozen=True, slots=True)
class Hour:
    start: DisplayTime
    end: DisplayTime
    lanes: tuple[Lane, ...]
    moves: tuple[MoveRow, ...]
    lost: int
    """Nodes that were lost in it."""


def last_hour(nodes: Sequence[NodeEntry], moves: Sequence[MovedCall], *, now_us: int) -> Hour:
    """`moves` are those since an hour ago, the newest first."""
    start_us = now_us - HOUR_US
    shown = [node for node in nodes if _end_us(node, now_us) >= start_us]
    lanes = [_lane(node, start_us, now_us) for node in shown[-LANES_MAX:]]
    if moves:
        lanes.append(_lane_of_moves(moves, start_us))
    return Hour(
        start=instant(start_us, now_us),
        end=instant(now_us, now_us),
        lanes=tuple(lanes),
        moves=tuple(MoveRow(move.rid, move.pool, instant(move.at_us, now_us)) for move in moves),
        lost=sum(NodeState(node.state) is NodeState.LOST for node in shown),
    )


def _lane(node: NodeEntry, start_us: int, now_us: int) -> Lane:
    end_us = _end_us(node, now_us)
    state = NodeState(node.state)
    age = since(end_us - node.launched_ms * 1000)
    words = f"{state} after {age}" if node.ended_ms is not None else f"{state}, launched {age} ago"
    why = f": {node.why}" if node.why else ""
    return Lane(
        node.id,
        words + why,
        (_span(node.launched_ms * 1000, end_us, start_us, state, f"{node.id} {words}{why}"),),
    )


def _lane_of_moves(moves: Sequence[MovedCall], start_us: int) -> Lane:
    minutes = Counter((move.at_us - start_us) // MINUTE_US for move in moves)
    return Lane(
        "moves",
        f"{plural(len(moves), 'answer')} went on elsewhere",
        tuple(
            _span(
                start_us + minute * MINUTE_US,
                start_us + (minute + 1) * MINUTE_US,
                *(start_us, "moved", f"{plural(number, 'answer')} moved in this minute"),
            )
            for minute, number in sorted(minutes.items())
        ),
    )


def _span(from_us: int, to_us: int, start_us: int, state: str, words: str) -> LaneSpan:
    x = 100 * max(0, from_us - start_us) / HOUR_US
    end = 100 * max(0, to_us - start_us) / HOUR_US
    width = max(NARROWEST, end - x)
    return LaneSpan(round(min(x, 100 - width), 3), round(width, 3), state, words)


def _end_us(node: NodeEntry, now_us: int) -> int:
    return now_us if node.ended_ms is None else node.ended_ms * 1000
