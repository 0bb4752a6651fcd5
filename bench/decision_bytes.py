"""What a decision leaves in SQL, and what recording it costs a gateway.

    python -m bench.decision_bytes [--decisions 5000]

Decisions over 5 and 50 candidates, each pool with two replicas. `calls_a_picture` is how many calls
are decided before the controller publishes another fleet, in which two pools have changed; with 1 a
call shares its fleet with no other. Batches are handed over as a gateway hands them over: those of
a quarter of a second together. `sql_bytes` is what the database file grew by, for each decision,
with index and page overhead; `record_us` is CPU time of the thread that encodes; `replayed_us` that
of a decision made again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

from billing.db.engine import open_store
from billing.decisions import batch
from billing.decisions import store as decisions
from gateway.decisions.record import PartsEncoder
from gateway.decisions.recorder import DecisionMade
from gateway.decisions.replay import replayed
from gateway.policies.shipped import shipped_policy
from gateway.tenants.ids import id_maker
from migrations.run import migrate
from routing.decide import decide
from routing.plans import Plans
from tests.gateway.decisions.records import attributes_of, busy_fleet
from tests.routing.fleets import call

POLICY = shipped_policy()
CASES = [(5, 1), (50, 1), (50, 10), (50, 100)]
HANDED_OVER_TOGETHER = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=5000)
    count = parser.parse_args().decisions
    for candidates, calls_a_picture in CASES:
        print(json.dumps(measured(count, candidates, calls_a_picture)))


def measured(count: int, candidates: int, calls_a_picture: int) -> dict[str, float]:
    made = list(many(count, candidates, calls_a_picture))
    with tempfile.TemporaryDirectory(prefix="sl-") as folder:
        path = Path(folder) / "sluice.db"
        migrate(f"sqlite:///{path}")
        store = open_store(f"sqlite:///{path}")
        before, encoding_s, bodies = size(path), 0.0, []
        for at in range(0, count, HANDED_OVER_TOGETHER):
            part = made[at : at + HANDED_OVER_TOGETHER]
            begun = process_time()
            encoder = PartsEncoder()
            body = batch.encode([encoder.encode(each.record()) for each in part])
            encoding_s += process_time() - begun
            bodies.append(len(body) / len(part))
            with store.write() as conn:
                decisions.add(conn, "gw", batch.decode(body))
        store.close()
        grown = size(path) - before
        store = open_store(f"sqlite:///{path}")
        records = list(decisions.recorded_since(store, 0))
        store.close()
    begun = process_time()
    assert not any(replayed(records, lambda _: POLICY)), "every decision is the same again"
    return {
        "candidates": candidates,
        "calls_a_picture": calls_a_picture,
        "sql_bytes": round(grown / count),
        "redis_bytes": round(median(bodies)),
        "record_us": round(encoding_s / count * 1e6, 1),
        "replayed_us": round((process_time() - begun) / count * 1e6, 1),
    }


def size(path: Path) -> int:
    """Of the database and what it has written ahead."""
    return sum(each.stat().st_size for each in path.parent.glob("sluice.db") if each.exists())


def many(count: int, candidates: int, calls_a_picture: int) -> Iterator[DecisionMade]:
    chance, plans = Random(1), Plans()
    fleet = busy_fleet(candidates, 0)
    new_id = id_maker(lambda: fleet.at_s, chance)
    for number in range(count):
        if number % calls_a_picture == 0:
            fleet = busy_fleet(candidates, number // calls_a_picture, fleet)
        names = [state.pool.name for state in fleet.pools]
        busy = {name: chance.randint(1, 4) for name in chance.sample(names, len(names) // 3)}
        one = call(
            prompt_tokens={"small": chance.randint(1, 400)},
            output_tokens_max=chance.choice([64, 256, 1024]),
            arrived_s=fleet.at_s,
            deadline_s=fleet.at_s + 120,
        )._replace(
            request_id=new_id("req"),
            organization=f"org_{chance.randrange(20):032x}",
            project=f"proj_{chance.randrange(40):032x}",
            key=f"key_{chance.randrange(60):032x}",
        )
        snapshot = fleet._replace(in_flight=busy)
        attributes = attributes_of(one)
        seed = chance.getrandbits(63)
        decided = decide(one, snapshot, POLICY.match(attributes), seed, plans)
        yield DecisionMade(one, attributes, snapshot, decided)


if __name__ == "__main__":
    main()
