"""Visits and what they tell: who is left alone, how many probes are out, and who is told what."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.health.breakers import Breakers, Scopes, outside_scopes
from routing.health.breaker import OF_A_PLACE, BreakerState
from routing.health.failures import Failure, FailureKind
from routing.types import CapacityClass, Pool, PoolState
from tests.routing.fleets import NOW_S, pool

PLACE: Scopes = ("pool:one",)
RESET = Failure(FailureKind.RESET)


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


def outside(name: str = "one", **changes: object) -> Pool:
    made = pool(name=name, capacity_class=CapacityClass.EXTERNAL)
    return replace(made, **{"base_url": "http://127.0.0.1:9/v1"} | changes)  # type: ignore[arg-type]


def fail(breakers: Breakers, scopes: Scopes, failure: Failure = RESET, times: int = 1) -> None:
    for _ in range(times):
        visit = breakers.visit(scopes)
        assert visit is not None
        visit.failed(failure)


def opened(clock: Clock, scopes: Scopes = PLACE) -> Breakers:
    breakers = Breakers(clock)
    fail(breakers, scopes, times=OF_A_PLACE.in_a_row)
    assert breakers.visit(scopes) is None
    return breakers


@given(st.lists(st.sampled_from(["visit", "answered", "failed", "end", "passes"]), max_size=80))
def test_there_are_never_more_than_three_probes_out_and_none_is_lost(steps: list[str]) -> None:
    clock = Clock()
    breakers, visits = opened(clock), []
    for step in steps:
        if step == "passes":
            clock.now_s += 1.5
        elif step == "visit":
            was_open = breakers.by_scope[PLACE[0]].openings > 0
            visit = breakers.visit(PLACE)
            if visit is not None:
                visits.append(visit)
            assert sum(breakers._probes.values()) <= OF_A_PLACE.probes or not was_open
        elif visits:
            visit = visits.pop(0)
            {
                "answered": visit.answered,
                "end": visit.end,
                "failed": lambda v=visit: v.failed(RESET),
            }[step]()
    for visit in visits:
        visit.end()
        visit.end()
    assert not breakers._probes


def test_a_place_that_never_failed_is_not_kept() -> None:
    breakers = Breakers(Clock())
    visit = breakers.visit(PLACE)
    assert visit is not None
    visit.answered()
    assert (breakers.by_scope, breakers.untold) == ({}, {})


def test_what_fails_behind_its_first_token_opens_no_breaker() -> None:
    breakers = Breakers(Clock())
    for kind in (FailureKind.CUT, FailureKind.NONSENSE, FailureKind.SILENT) * 20:
        visit = breakers.visit(PLACE)
        assert visit is not None
        visit.answered()
        visit.failed(Failure(kind))
    assert breakers.by_scope == {}


def test_a_cool_down_is_waited_for_within_the_bound_and_an_open_breaker_never() -> None:
    clock = Clock()
    breakers = Breakers(clock)
    fail(breakers, PLACE, Failure(FailureKind.COOL_DOWN, 3.0))
    assert breakers.wait_s(PLACE, 5.0) == 3.0
    assert breakers.wait_s(PLACE, 2.0) == math.inf
    clock.now_s += 3
    assert breakers.wait_s(PLACE, 5.0) == 0.0
    assert opened(clock).wait_s(PLACE, 1e9) == math.inf


def test_a_refusal_of_our_account_stops_all_its_pools_and_no_other() -> None:
    breakers = Breakers(Clock())
    key = {"provider": "acme", "api_key_env": "KEY"}
    one, two = outside("one", **key), outside("two", **key)
    others = outside("three", provider="acme", api_key_env="OTHER"), outside("four")
    fail(breakers, outside_scopes(one), Failure(FailureKind.REFUSED_US))
    for each in (one, two):
        assert breakers.visit(outside_scopes(each)) is None
        health = breakers.health_of(PoolState(pool=each, replicas=(), waiting=0))
        assert health is not None
        assert (health.state, health.reason) == (BreakerState.OPEN, FailureKind.REFUSED_US)
    assert all(breakers.visit(outside_scopes(each)) is not None for each in others)


def test_what_is_of_one_pool_says_nothing_of_the_account() -> None:
    breakers = Breakers(Clock())
    one, two = (outside(name, provider="acme") for name in ("one", "two"))
    fail(breakers, outside_scopes(one), Failure(FailureKind.NOT_THERE))
    assert breakers.visit(outside_scopes(one)) is None
    assert breakers.visit(outside_scopes(two)) is not None


def test_every_change_is_told_once_and_a_success_of_the_well_never() -> None:
    clock = Clock()
    breakers = opened(clock)
    assert breakers.untold[PLACE[0]].openings == 1
    other = Breakers(clock)
    for scope, report in breakers.untold.items():
        other.hear(scope, report)
    assert other.visit(PLACE) is None
    assert other.untold == {}, "what was heard is not told again"


def test_a_breaker_that_closed_long_ago_and_a_replica_that_is_gone_are_forgotten() -> None:
    clock = Clock()
    breakers = opened(clock)
    fail(breakers, ("replica:gone",))
    fail(breakers, ("replica:there",))
    breakers.forget({"there"})
    assert set(breakers.by_scope) == {*PLACE, "replica:there"}
    clock.now_s += 10
    for _ in range(OF_A_PLACE.probes):
        visit = breakers.visit(PLACE)
        assert visit is not None
        visit.answered()
    breakers.forget({"there"})
    assert PLACE[0] in breakers.by_scope, "its share still grows"
    clock.now_s += 100
    breakers.forget({"there"})
    assert set(breakers.by_scope) == {"replica:there"}
