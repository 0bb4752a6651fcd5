"""A whole gateway with a clock that can be moved, a disk that can be full, and a step to die at.

A world says which step (`run`), or CHAOS_DIE does (`main`). Everything else is
`python -m gateway`; its settings are in the environment.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from billing.limits.holds import Holds
from billing.spool.spool import Spool
from gateway.call.meter import Meter
from gateway.server import process as gateway
from gateway.upstream import live
from tests.chaos.deadly import Death
from tests.chaos.halves import HalfMeter
from tests.chaos.knobs import Knobs

FREE_BYTES_MIN = 0
"""A test's disk may be small, and is full by a knob."""


def die_at(step: str) -> None:
    death = Death(step)
    for name in ("admit", "renew", "settle"):
        setattr(Holds, name, death.at(f"holds.{name}", getattr(Holds, name)))
    for name in ("opened", "checkpoint", "closed"):
        setattr(Spool, name, death.at(f"spool.{name}", getattr(Spool, name)))


def run(die: str, knobs: Path, bills_half: bool) -> None:
    """`die` is a step to die at, if any; `bills_half` is for the auditor to find."""
    die_at(die)
    own = Knobs(knobs)
    assert gateway.time is time, "the composition root reads the clock there"
    setattr(gateway, "time", SimpleNamespace(time=own.now))  # noqa: B010
    for name, value in (("write", own.write), ("disk_free_min_bytes", FREE_BYTES_MIN)):
        assert name in Spool.__init__.__kwdefaults__
        Spool.__init__.__kwdefaults__[name] = value
    if bills_half:
        assert live.Meter is Meter
        setattr(live, "Meter", HalfMeter)  # noqa: B010
    sys.exit(gateway.main())


def main() -> None:
    die_at(os.environ.get("CHAOS_DIE", ""))
    sys.exit(gateway.main())
