"""How the time of a replica is shared among the calls that it computes together.

Pure. This is processor sharing, a pass at a time (L. Kleinrock, "Time-shared Systems: A theoretical
treatment", JACM 14(2), 1967). A pass of the model serves some sequences at once. Its time is theirs
in proportion to the tokens that it computes for each. Guards the law that the shares of a pass are
its time, to the microsecond. So no second of a replica is ever shared out twice, and the time in no
pass was idle.
"""

from __future__ import annotations

from collections.abc import Sequence

MICROSECONDS = 1_000_000


def shares_us(elapsed_us: int, tokens: Sequence[int]) -> list[int]:
    """The share of each sequence, given how many tokens were computed for it: at least one in all.
    Shares are rounded so that the sum of the first ones is always their exact part, rounded down.
    """
    whole = sum(tokens)
    shares, share_before, so_far = [], 0, 0
    for count in tokens:
        so_far += count
        upto = elapsed_us * so_far // whole
        shares.append(upto - share_before)
        share_before = upto
    return shares


def between_us(begun_s: float, ended_s: float) -> int:
    """Whole microseconds that passed on a clock in seconds."""
    return max(0, int((ended_s - begun_s) * MICROSECONDS))
