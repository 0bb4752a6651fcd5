"""Where a start is, and when it will be over. Pure."""

from enum import StrEnum
from typing import Final

LATE: Final = 0.2
"""Of the age of a late start: how long it is expected to go on."""


class Stage(StrEnum):
    """In their order. NODE: Ray looks for a place, or a node comes. SPARE: a process is taken over
    or made. LOAD: the engine reads the weights. WARM_UP: it is about to answer."""

    NODE = "node"
    SPARE = "spare"
    LOAD = "load"
    WARM_UP = "warm-up"


def stage_of_start(*, has_process: bool, is_loaded: bool, has_place: bool) -> Stage:
    if is_loaded:
        return Stage.WARM_UP
    if has_process:
        return Stage.LOAD
    return Stage.SPARE if has_place else Stage.NODE


def eta_s(start_s: float, age_s: float) -> float:
    """Of a start that usually takes `start_s`. One that is late is expected to be late by a fifth
    of its age."""
    return round(start_s - age_s if age_s <= start_s else LATE * age_s, 3)
