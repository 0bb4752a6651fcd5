"""How long a part that ended stays down: not at all if it had worked, else longer each time.

Pure. A part that is killed while it works loses nothing but the time it takes to start. One that
dies as it starts, or soon after, would keep the machine busy with starting it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Life:
    """One run of a part: how long it took to be ready, and how long it was ready, None if never."""

    starting_s: float
    worked_s: float | None


@dataclass(frozen=True, slots=True)
class Backoff:
    """The first pause, the longest, and how long a part is ready that has worked."""

    first_s: float
    longest_s: float
    steady_after_s: float


def has_worked(life: Life, backoff: Backoff) -> bool:
    """For longer than it took to start, so that starting never takes most of the time."""
    enough_s = max(backoff.steady_after_s, life.starting_s)
    return life.worked_s is not None and life.worked_s >= enough_s


def pause_s(lives_in_vain: int, backoff: Backoff) -> float:
    """Before the next start, after so many lives in a row that had not worked."""
    if lives_in_vain == 0:
        return 0.0
    doubled: float = backoff.first_s * 2.0 ** min(lives_in_vain - 1, 16)
    return min(doubled, backoff.longest_s)
