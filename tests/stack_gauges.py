"""What is taken while calls run, wherever it is kept: gateway, Redis, workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from billing.limits import keys
from billing.limits.state import decode_scope
from workers.controller.queue import room_key

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
        keys_of_scopes = list(client.scan_iter(f"*:{keys.LAYOUT}:scope:*", 1000))
        scopes = [decode_scope(client.get(key)) for key in keys_of_scopes]
    stats = [s for pool in pools for s in stack.replica_stats(pool)]
    return Gauges(
        open_calls=fleet["gateway"]["open_calls"],
        unsettled_calls=fleet["gateway"]["unsettled_calls"],
        in_flight=sum(fleet["gateway"]["in_flight"].values()),
        waiting=waiting,
        open_holds=open_holds,
        leases=sum(scope.running for scope in scopes),
        held_nanousd=sum(scope.held_nanousd for scope in scopes),
        running=sum(s["running"] + s["queued"] for s in stats),
    )


def unbooked_shards(stack: Stack) -> list[int]:
    """Shards with usage that the ledger has not read to its end, or not acknowledged."""
    found = []
    with stack.redis() as client:
        for shard in range(keys.SHARDS):
            key = keys.usage_key(shard)
            if client.exists(key):
                last = client.xinfo_stream(key)["last-generated-id"]
                (group,) = client.xinfo_groups(key)
                if group["pending"] or group["last-delivered-id"] != last:
                    found.append(shard)
    return found
