"""A whole gateway with a step to die at, which CHAOS_DIE names."""

from __future__ import annotations

import os
import sys

from billing.limits.holds import Holds
from billing.spool import Spool
from gateway import process as gateway
from tests.chaos.deadly import Death

if __name__ == "__main__":
    death = Death(os.environ.get("CHAOS_DIE", ""))
    for name in ("admit", "renew", "settle"):
        setattr(Holds, name, death.at(f"holds.{name}", getattr(Holds, name)))
    for name in ("opened", "checkpoint", "closed"):
        setattr(Spool, name, death.at(f"spool.{name}", getattr(Spool, name)))
    sys.exit(gateway.main())
