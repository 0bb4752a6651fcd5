"""Where a start is, and when it will be over. Pure."""

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
