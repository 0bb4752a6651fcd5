"""The open calls of a worker by tier."""

from workers.deployments.calls import OpenCalls


def test_those_that_came_last_are_the_ones_that_are_queued() -> None:
    now_s = [100.0]
    calls = OpenCalls(lambda: now_s[0])
    with calls.open("a", "flex") as first, calls.open("b", "flex"):
        now_s[0] = 101.0
        with calls.open("c", "priority"), calls.open("d", "flex"):
            now_s[0] = 103.5
            assert calls.queues(0) == []
            assert calls.queues(3) == [
                {"tier": "flex", "callers": 2, "waited_ms": 3_500},
                {"tier": "priority", "callers": 1, "waited_ms": 2_500},
            ]
            first.begun = True
            assert sum(int(each["callers"]) for each in calls.queues(3)) == 3
    assert calls.queues(0) == []
