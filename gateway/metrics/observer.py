"""What is counted and watched of this gateway, for whoever looks from outside."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from billing.limits.breaker import Breaker
from billing.spool.segments import unconfirmed_bytes
from gateway.catalog.fleet import PublishedPool
from gateway.metrics.lag import LoopLag
from gateway.metrics.tally import Tally
from gateway.upstream.faults import Faults


@dataclass(frozen=True, slots=True)
class Observer:
    lag: LoopLag
    breaker: Breaker
    spool_root: Path
    gateway_id: str
    faults: Faults
    tally: Tally = field(default_factory=Tally)

    def spool_bytes(self) -> int:
        """Of segments that the ledger has yet to confirm. Looks at the disk."""
        return unconfirmed_bytes(self.spool_root, self.gateway_id)


def by_state(pools: Sequence[PublishedPool]) -> Mapping[tuple[str, str], int]:
    """Replicas as the controller published them, by pool and state."""
    return Counter((pool.name, replica.state.value) for pool in pools for replica in pool.replicas)
