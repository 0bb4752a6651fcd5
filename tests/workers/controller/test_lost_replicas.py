"""Losses of replicas are counted from look to look, and from one controller to the next."""

from __future__ import annotations

import pytest

from tests.workers.controller.test_lifetimes import EVERY_US, PRICES, S, replica, warm
from tests.workers.controller.test_losses import entry, fleet
from workers.controller.lifetimes import Life, LiveReplica, look
from workers.controller.lost_replicas import HALF_LIFE_S, NONE_LOST, LostReplicas

DRAINING = warm(9000, draining=True)


def counted(
    *looks: tuple[int, list[LiveReplica]], lost: LostReplicas | None = None
) -> LostReplicas:
    lives: dict[str, Life] = {}
    lost = lost or LostReplicas()
    for at_us, seen in looks:
        after, _ = look(lives, seen, PRICES, at_us=at_us, every_us=EVERY_US)
        lost.note(lives, after, at_us=at_us)
        lives = after
    return lost


def looks(*seen: list[LiveReplica]) -> list[tuple[int, list[LiveReplica]]]:
    """One a second, from the second second on."""
    return [((2 + n) * S, each) for n, each in enumerate(seen)]


def test_a_warm_replica_that_is_gone_is_lost_and_one_that_drained_is_not() -> None:
    here = [replica(warm(0))]
    assert counted(*looks(here, here, [])).of("p").lost == 1
    assert counted(*looks(here, here, [replica(DRAINING)], [])).of("p").lost == 0
    assert counted(*looks(here, here)).of("p").lost == 0
    assert counted().of("p") == NONE_LOST


def test_a_start_that_fails_is_no_loss() -> None:
    assert counted(*looks([replica()], [replica()], [])).of("p") == NONE_LOST


def test_seconds_are_those_of_all_replicas_since_each_is_warm() -> None:
    two = [replica(warm(0)), LiveReplica("r2", "p", S, warm(0))]
    lost = counted(*looks([replica()], two, two, two, [two[0]]))
    assert lost.of("p").warm_s == pytest.approx(3 + 2, abs=0.01)
    assert lost.of("p").lost == 1


def test_what_goes_while_nobody_looks_is_not_counted() -> None:
    here = [replica(warm(0))]
    lost = counted((2 * S, here), (3 * S, here), (300 * S, []))
    assert lost.of("p").lost == 0
    assert lost.of("p").warm_s == pytest.approx(1, abs=0.01)


def test_counts_are_forgotten_by_half_in_a_week() -> None:
    lost = LostReplicas()
    lost.begin(fleet(entry("p", lost=4.0, warm_s=1000.0)))
    lost.note({}, {}, at_us=HALF_LIFE_S * S)
    assert lost.of("p") == pytest.approx((2.0, 500.0))


def test_the_next_controller_goes_on_with_the_counts_of_the_last_one() -> None:
    here = [replica(warm(0))]
    first = counted(*looks(here, here, []))
    count = first.of("p")
    second = LostReplicas()
    second.begin(fleet(entry("p", lost=count.lost, warm_s=count.warm_s)))
    assert second.of("p") == count
    assert second.of("q") == NONE_LOST
