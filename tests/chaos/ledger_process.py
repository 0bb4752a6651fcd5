"""The ledger process with a clock that can be moved, a step to die at (between a commit and its
acknowledgement, say), and a SQLite that is soon found locked.

Everything else is `python -m billing`; its settings are in the environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

from billing import __main__ as ledger
from billing.db import engine
from billing.ledger import booking
from billing.writer.stream import UsageStreams
from tests.chaos.deadly import Death
from tests.chaos.knobs import Knobs

BUSY_TIMEOUT_MS = 200


def run(die: str, knobs: Path) -> None:
    """`die` is a step to die at, if any."""
    death = Death(die)
    booking.book = death.at("book", booking.book)
    UsageStreams.acknowledge = death.at("acknowledge", UsageStreams.acknowledge)  # type: ignore[method-assign]
    UsageStreams.trim = death.at("trim", UsageStreams.trim)  # type: ignore[method-assign]
    ledger.now = Knobs(knobs).now
    engine.BUSY_TIMEOUT_MS = BUSY_TIMEOUT_MS
    sys.exit(ledger.main())
