"""How an attempt at a place may fail, and whom that says something of.

A kind decides what follows: whether the place is asked again, whether its breaker counts it and
whether the caller is told. Pure.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class FailureKind(StrEnum):
    REFUSED_US = "refused_us"
    """401, 402 or 403, or words that say the same: our key or our account. Never the caller's."""
    NOT_THERE = "not_there"
    """404, a redirect and the like: the URL or the model that a pool names is wrong."""
    COOL_DOWN = "cool_down"
    """429, or 503 with `retry-after`: it is well, and wants to be left alone for a time."""
    SERVER_ERROR = "server_error"
    """Any other 5xx."""
    RESET = "reset"
    """No connection, or one that broke before the answer began."""
    SILENT = "silent"
    """It took the call, and no token came within the time for the first one."""
    CUT = "cut"
    """The answer broke, stalled or ended in its midst."""
    NONSENSE = "nonsense"
    """What came cannot be read."""
    CALLERS = "callers"
    """400, 413 or 422 about the call: nobody else would take it."""
    CONTEXT_LENGTH = "context_length"
    """The call is longer than this model takes; a larger one may take it."""
    CONTENT_FILTER = "content_filter"
    """The policy of the server on content. It is passed on."""


OF_THE_CALL: Final = frozenset(
    {FailureKind.CALLERS, FailureKind.CONTEXT_LENGTH, FailureKind.CONTENT_FILTER}
)
"""These say that the place works, and something of the call."""
OF_THE_SETTING_UP: Final = frozenset({FailureKind.REFUSED_US, FailureKind.NOT_THERE})
"""These hold for every call until an operator mends them."""
ONCE_MORE: Final = frozenset({FailureKind.SERVER_ERROR, FailureKind.RESET, FailureKind.NONSENSE})
"""After these the same place may be asked once more. A silent one never is."""


class Failure(NamedTuple):
    """`retry_after_s` is the place's own word, if it gave one."""

    kind: FailureKind
    retry_after_s: float | None = None


def is_of_place(kind: FailureKind) -> bool:
    """Whether a breaker counts it. A cool-down is no failure. An answer that was cut had begun: its
    place works, and the answer goes on."""
    return kind not in OF_THE_CALL and kind not in (FailureKind.COOL_DOWN, FailureKind.CUT)
