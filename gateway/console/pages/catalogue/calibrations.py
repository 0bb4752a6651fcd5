"""What this gateway learned of how fast pools are, and how far its predictions were off. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.console.formatting import count, duration
from gateway.speeds.pool_speeds import PoolSpeeds
from routing.economics.calibration import Calibration


@dataclass(frozen=True, slots=True)
class LearnedTime:
    """One kind of time of one target. `error` and `inside` are empty where nothing was predicted
    yet before it came."""

    name: str
    taken: str
    refused: str
    error: str
    inside: str
    overhead: str
    reached: str


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """What pools of one variant on the same hardware share."""

    target: str
    pools: tuple[str, ...]
    times: tuple[LearnedTime, ...]


def calibration_views(speeds: Sequence[PoolSpeeds]) -> tuple[CalibrationView, ...]:
    """Of what was learned from at least one call."""
    sharing: defaultdict[str, list[PoolSpeeds]] = defaultdict(list)
    for each in speeds:
        sharing[each.target].append(each)
    views = [
        CalibrationView(target, tuple([each.pool.name for each in pools]), tuple(_times(pools[0])))
        for target, pools in sorted(sharing.items())
    ]
    return tuple([view for view in views if view.times])


def _times(speeds: PoolSpeeds) -> Iterator[LearnedTime]:
    times = (
        ("First token", speeds.first_token),
        ("Token after it", speeds.step),
        ("Busy replica", speeds.busy),
    )
    for name, calibration in times:
        if calibration is not None and (calibration.taken or calibration.refused):
            yield _time(name, calibration)


def _time(name: str, calibration: Calibration) -> LearnedTime:
    refusals = [f"{count(n)} {why.replace('_', ' ')}" for why, n in calibration.refused.items()]
    return LearnedTime(
        name=name,
        taken=count(calibration.taken),
        refused=", ".join(refusals),
        error=_share(calibration.error),
        inside=_share(calibration.inside),
        overhead=duration(round(calibration.overhead_s * 1e6)),
        reached=", ".join([_reached(each) for each in calibration.efficiencies]),
    )


def _reached(efficiency: float) -> str:
    """A ceiling that is a guess may be passed many times over."""
    return f"{efficiency:.0%}" if efficiency < 2 else f"{efficiency:,.0f} times"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
