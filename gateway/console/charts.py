"""The geometry of the charts: from numbers to the coordinates of an SVG. Pure.

A latency chart has a logarithmic axis, since a cold start takes a hundred times as long as a warm
answer. Coordinates are in a viewBox WIDTH wide, rounded to a tenth; the plot begins at LEFT and
lies between TOP and BOTTOM, y downwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 480.0
LEFT = 44.0
TOP, BOTTOM = 18.0, 128.0
STEPS = (1, 2, 5)
TICKS_MAX = 4


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to heights; `ticks` are the values worth a line."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool

    def y(self, value: float) -> float:
        """Between BOTTOM (low) and TOP (high); what lies outside is put on the edge."""
        inside = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return round(BOTTOM - share * (BOTTOM - TOP), 1)


def log_scale(values: Sequence[float]) -> Scale:
    """Over all positive values, from one of 1, 2, 5 x 10^n to another, at least a decade."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = _step_below(min(positive)), _step_above(max(positive))
    while high / low < 10:
        high = _step_above(high * 1.01)
    steps = [low]
    while steps[-1] < high * 0.999:
        steps.append(_step_above(steps[-1] * 1.01))
    stride = math.ceil((len(steps) - 1) / TICKS_MAX)
    return Scale(low, high, tuple(steps[::stride]), is_log=True)


def linear_scale(values: Sequence[float]) -> Scale:
    """From zero to one of 1, 2, 5 x 10^n."""
    high = _step_above(max([*values, 1e-3]))
    return Scale(0.0, high, (high / 2, high), is_log=False)


@dataclass(frozen=True, slots=True)
class Band:
    """Two series over the same slots: a filled band between them, and a line for each."""

    area: str
    lower: str
    upper: str
    dots: tuple[tuple[float, float, float], ...]
    """(x, y lower, y upper) of values without neighbours, which no line would show."""


def band(pairs: Sequence[tuple[float, float] | None], scale: Scale) -> Band:
    """`pairs` are (lower, upper) per slot, None where there is nothing to show."""
    points = [
        None
        if pair is None
        else (slot_middle(place, len(pairs)), scale.y(pair[0]), scale.y(pair[1]))
        for place, pair in enumerate(pairs)
    ]
    runs = _runs(points)
    long = [run for run in runs if len(run) > 1]
    return Band(
        area=" ".join(
            _path([(x, high) for x, _, high in run])
            + _path([(x, low) for x, low, _ in reversed(run)]).replace("M", "L", 1)
            + "Z"
            for run in long
        ),
        lower=" ".join(_path([(x, low) for x, low, _ in run]) for run in long),
        upper=" ".join(_path([(x, high) for x, _, high in run]) for run in long),
        dots=tuple(run[0] for run in runs if len(run) == 1),
    )


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float


def bars(values: Sequence[float], scale: Scale) -> tuple[Bar, ...]:
    """One per value above zero, with a gap between neighbours and never invisible."""
    slot = slot_width(len(values))
    shapes = []
    for place, value in enumerate(values):
        if value > 0:
            y = min(scale.y(value), BOTTOM - 1)
            x = round(LEFT + place * slot + slot * 0.15, 1)
            shapes.append(Bar(x, y, round(slot * 0.7, 1), round(BOTTOM - y, 1)))
    return tuple(shapes)


def slots(used: int, total: int, drawn_max: int = 32) -> tuple[tuple[float, float, bool], ...]:
    """(x, width, is used) of the cells of a gauge 100 wide; one cell for several slots if many."""
    if total <= 0:
        return ()
    cells = min(total, drawn_max)
    filled = math.ceil(min(used, total) * cells / total)
    gap = min(1.2, 25 / cells)
    step = (100 + gap) / cells
    return tuple(
        (round(place * step, 2), round(step - gap, 2), place < filled) for place in range(cells)
    )


def shares(lengths: Sequence[int], visible_min: float = 0.6) -> tuple[tuple[float, float], ...]:
    """(x, width) of consecutive phases on a bar 100 wide. What has a length at all is seen."""
    whole = sum(lengths)
    if whole <= 0:
        return tuple((0.0, 0.0) for _ in lengths)
    widths = [max(visible_min, 100 * length / whole) if length else 0.0 for length in lengths]
    scaled = [100 * width / sum(widths) for width in widths]
    shapes, x = [], 0.0
    for width in scaled:
        shapes.append((round(x, 3), round(width, 3)))
        x += width
    return tuple(shapes)


def slot_width(places: int) -> float:
    return (WIDTH - LEFT) / places


def slot_middle(place: int, places: int) -> float:
    return round(LEFT + (place + 0.5) * slot_width(places), 1)


def _runs(
    points: Sequence[tuple[float, float, float] | None],
) -> list[list[tuple[float, float, float]]]:
    """Neighbours that are there, together."""
    runs: list[list[tuple[float, float, float]]] = [[]]
    for point in points:
        if point is not None:
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _step_below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(step * power for step in STEPS if step * power <= value * (1 + 1e-9))


def _step_above(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in (*STEPS, 10, 20)]
    return next(step for step in steps if step >= value * (1 - 1e-9))
