"""How the time of a replica is shared among the calls that it computes together.

Pure. Processor sharing, a pass at a time (L. Kleinrock, "Time-shared Systems: A theoretical
treatment", JACM 14(2), 1967): a pass of the model serves some sequences at once, and its time is
theirs in proportion to the tokens that it computes for each. Guards the law that the shares of a
pass are its time, to the microsecond: so no second of a replica is ever shared out twice, and what
is in no pass was idle.
"""

from __future__ import annotations

from collections.abc import Sequence

MICROSECONDS = 1_000_000


def shares_us(elapsed_us: int, tokens: Sequence[int]) -> list[int]:
    """The share of each, given how many tokens were computed for it: at least one in all. Each is
    its part rounded so that those up to it together are rounded down."""
    whole = sum(tokens)
    shares, given, so_far = [], 0, 0
    for count in tokens:
        so_far += count
        upto = elapsed_us * so_far // whole
        shares.append(upto - given)
        given = upto
    return shares


def between_us(begun_s: float, ended_s: float) -> int:
    """Whole microseconds that passed on a clock in seconds."""
    return max(0, int((ended_s - begun_s) * MICROSECONDS))
