"""What replicas did is counted from their own totals, whoever leads and whatever restarts."""

from workers.autoscaling.demand import Pace
from workers.controller.fleet_publisher import Fleet, PoolEntry
from workers.controller.paces import Paces
from workers.controller.replica_api import ReplicaStats


def stats(calls: int, tokens: int = 0, busy_s: float = 0.0) -> ReplicaStats:
    return ReplicaStats(
        running=0,
        queued=0,
        requests_total=calls,
        tokens_out_total=tokens,
        busy_us_total=round(busy_s * 1e6),
    )


def test_calls_count_from_the_first_look_at_a_replica_on() -> None:
    paces = Paces()
    paces.note("p", {"a": stats(1_000)})
    assert paces.begun("p") == 0
    paces.note("p", {"a": stats(1_005), "b": stats(70)})
    paces.note("p", {"b": stats(73)})
    assert paces.begun("p") == 8
    assert paces.begun("other") == 0


def test_replica_that_began_anew_takes_nothing_back() -> None:
    paces = Paces()
    paces.note("p", {"a": stats(10)})
    paces.note("p", {"a": stats(2)})
    paces.note("p", {"a": stats(3)})
    assert paces.begun("p") == 1


def test_pace_is_learned_from_ten_seconds_of_computing() -> None:
    paces = Paces()
    paces.note("p", {"a": stats(0)})
    paces.note("p", {"a": stats(5, tokens=500, busy_s=5.0)})
    assert paces.pace("p") == Pace()
    paces.note("p", {"a": stats(10, tokens=1_000, busy_s=10.0)})
    assert paces.pace("p") == Pace(100, 100)


def test_next_controller_goes_on_with_the_pace() -> None:
    paces = Paces()
    paces.begin(Fleet(1, 1, 1, "c", (PoolEntry("p", 1, "", 8.0, 0, (), pace=Pace(7.0, 3.0)),)))
    assert (paces.pace("p"), paces.begun("p")) == (Pace(7.0, 3.0), 0)
