"""Where a start is, when it will be over, and how many starts were where. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LATE: Final = 0.2
"""Of the age of a late start: how long it is expected to go on."""


class Stage(StrEnum):
    """In their order. NODE: Ray looks for a place, or a node comes. SPARE: a process is taken over
    or made. WEIGHTS: the checkpoint comes to the node. LOAD: the engine reads it. WARM_UP: it is
    about to answer. WAKE is the one stage of a replica that slept."""

    NODE = "node"
    SPARE = "spare"
    WEIGHTS = "weights"
    LOAD = "load"
    WARM_UP = "warm-up"
    WAKE = "wake"


def stage_of_start(
    *,
    has_process: bool,
    is_loaded: bool,
    has_place: bool,
    is_fetching: bool = False,
    is_waking: bool = False,
) -> Stage:
    if is_waking:
        return Stage.WAKE
    if is_loaded:
        return Stage.WARM_UP
    if is_fetching:
        return Stage.WEIGHTS
    if has_process:
        return Stage.LOAD
    return Stage.SPARE if has_place else Stage.NODE


def eta_s(start_s: float, age_s: float, fetch_left_s: float = 0.0) -> float:
    """Of a start that usually takes `start_s`, and has gone on for `age_s` besides its fetch. One
    that is late is expected to be late by a fifth of its age. What is left of a fetch comes first.
    """
    left_s = start_s - age_s if age_s <= start_s else LATE * age_s
    return round(left_s + fetch_left_s, 3)


@dataclass(frozen=True, slots=True)
class StageCount:
    """`starts`: how many came to a stage so far. `s`: how long all of them were in it."""

    starts: int = 0
    s: float = 0.0


NO_COUNT: Final = StageCount()


def counted(
    counts: Mapping[Stage, StageCount],
    before: Mapping[str, Stage],
    now: Mapping[str, Stage],
    step_s: float,
) -> dict[Stage, StageCount]:
    """The counts after one more look, `step_s` after the last one. `before` and `now`: the stage of
    each replica that starts. One was in its stage until the look that does not find it there. A
    stage that begins and ends between two looks is not seen."""
    after = dict(counts)
    for id, stage in now.items():
        if before.get(id) is not stage:
            one = after.get(stage, NO_COUNT)
            after[stage] = StageCount(one.starts + 1, one.s)
    for stage in before.values():
        one = after.get(stage, NO_COUNT)
        after[stage] = StageCount(one.starts, round(one.s + step_s, 3))
    return after
