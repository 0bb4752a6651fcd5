"""What is taken while calls run, wherever it is kept: gateway, Redis, workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from billing.limits import keys
from workers.queue import room_key

if TYPE_CHECKING:
    from tests.stack import Stack


@dataclass(frozen=True)
class Gauges:
    """Everything that is taken while calls run; all zero when none does."""

    open_calls: int
    unsettled_calls: int
    in_flight: int
    waiting: int
    open_holds: int
    leases: int
    held_nanousd: int
    running: int
    """Calls in the workers, queued ones included."""

    @property
    def are_zero(self) -> bool:
        return not any(vars(self).values())


def read_gauges(stack: Stack) -> Gauges:
    fleet = stack.admin("GET", "/fleet")
    pools = [pool["name"] for pool in fleet["pools"]]
    with stack.redis() as client:
        waiting = sum(client.zcard(room_key(pool)) for pool in pools)
        open_holds = sum(client.zcard(keys.due_key(shard)) for shard in range(keys.SHARDS))
        leases = sum(client.zcard(key) for key in client.scan_iter("*:conc:*", 1000))
        scopes = list(client.scan_iter("*:scope:*", 1000))
        held = sum(int(client.hget(key, "held") or 0) for key in scopes)
    stats = [s for pool in pools for s in stack.replica_stats(pool)]
    return Gauges(
        open_calls=fleet["gateway"]["open_calls"],
        unsettled_calls=fleet["gateway"]["unsettled_calls"],
        in_flight=sum(fleet["gateway"]["in_flight"].values()),
        waiting=waiting,
        open_holds=open_holds,
        leases=leases,
        held_nanousd=held,
        running=sum(s["running"] + s["queued"] for s in stats),
    )
