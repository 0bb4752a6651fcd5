"""What replicas did is counted from their own totals, whoever leads and whatever restarts."""

import msgspec

from workers.autoscaling.demand import Pace
from workers.autoscaling.keep_alive import NO_GAPS, sparse, with_gap
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


def test_next_controller_goes_on_with_the_pace_and_the_gaps() -> None:
    paces = Paces()
    gaps = with_gap(NO_GAPS, 40.0)
    entry = PoolEntry("p", 1, "", 8.0, 0, (), pace=Pace(7.0, 3.0), gaps=sparse(gaps))
    published = msgspec.json.encode(Fleet(1, 1, 1, "c", (entry,)))
    paces.begin(msgspec.json.decode(published, type=Fleet))
    assert (paces.pace("p"), paces.begun("p"), paces.gaps("p")) == (Pace(7.0, 3.0), 0, gaps)


def test_gap_ends_with_a_call_that_nobody_saw_open() -> None:
    paces = Paces()
    for at_s, calls, is_busy in ((0, 5, True), (10, 5, False), (30, 5, False), (50, 6, False)):
        paces.note("p", {"a": stats(calls)})
        paces.note_load("p", is_busy=is_busy, at_ms=at_s * 1000)
    assert paces.gaps("p") == with_gap(NO_GAPS, 40.0)
