"""How often threads of the ledger process take turns.

One waits for SQL while another makes the next batch ready. With Python's own setting the one that
has its answer waits five milliseconds for its turn, at each of the thirty answers of a batch, and
the database waits with it.
"""

from __future__ import annotations

import sys

TURN_S = 0.001


def switch_often() -> None:
    sys.setswitchinterval(TURN_S)
