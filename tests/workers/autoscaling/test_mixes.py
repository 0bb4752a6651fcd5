"""Laws of mixes: bounds and the base hold, nothing ready is planned below what the calls need,
markets that give and take move no on-demand replica, and zones that lost are left alone."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from workers.autoscaling.mixes import (
    WORTH,
    MixKnobs,
    MixMemory,
    MixView,
    Share,
    decide_mix,
)
from workers.autoscaling.zones import Market, MixPool

ZONES = ("a", "b", "c")
KNOBS = MixKnobs(base=1, spare=1, stable_ms=60_000, retry_ms=300_000)
NOTHING = MixMemory()


def pool(name: str, market: Market, **fields: object) -> MixPool:
    usual: dict[str, object] = {"zone": name, "least": 0, "most": 8, "cost": 1.0}
    return MixPool(name=name, market=market, **usual | fields)  # type: ignore[arg-type]


RESERVED = pool("reserved", Market.RESERVED, most=1, cost=0.6)
ON_DEMAND = pool("rented", Market.ON_DEMAND, cost=1.0)
SPOT = tuple(
    pool(f"spot-{zone}", Market.SPOT, zone=zone, cost=cost)
    for zone, cost in zip(ZONES, (0.30, 0.31, 0.32), strict=True)
)
POOLS = (RESERVED, ON_DEMAND, *SPOT)


@st.composite
def pools(draw: st.DrawFn, market: Market, name: str, at_ms: int) -> MixPool:
    least = draw(st.sampled_from((0, 0, 0, 1, 2)))
    most = draw(st.integers(max(least, 1), 6))
    return MixPool(
        name=name,
        market=market,
        zone=draw(st.sampled_from(ZONES)) if market is Market.SPOT else name,
        least=least,
        most=most,
        cost=draw(st.sampled_from((0.0, 0.2, 0.3, 0.7, 1.0))),
        ready=draw(st.integers(0, 7)),
        target=draw(st.integers(0, 7)),
        trouble_ms=draw(st.none() | st.integers(0, at_ms)),
        barred=draw(st.booleans()),
        losses_per_s=draw(st.sampled_from((0.0, 1e-4, 0.1))),
    )


@st.composite
def views(draw: st.DrawFn) -> MixView:
    at_ms = draw(st.integers(0, 1_000_000))
    others = draw(st.lists(st.sampled_from(Market), max_size=3))
    markets = [Market.SPOT] * draw(st.integers(1, 4)) + others
    return MixView(
        at_ms=at_ms,
        need=draw(st.integers(0, 12)),
        start_s=draw(st.sampled_from((0.0, 30.0))),
        pools=tuple(draw(pools(m, f"p{n}", at_ms)) for n, m in enumerate(markets)),
    )


@st.composite
def memories(draw: st.DrawFn, view: MixView) -> MixMemory:
    names = draw(st.sets(st.sampled_from([pool.name for pool in view.pools])))
    return MixMemory(
        {name: draw(st.integers(0, 8)) for name in sorted(names)},
        draw(st.integers(0, 10)),
        draw(st.none() | st.integers(0, view.at_ms)),
    )


VIEWS = views().flatmap(lambda view: st.tuples(st.just(view), memories(view)))
ANY_KNOBS = st.builds(
    MixKnobs,
    base=st.integers(0, 4),
    spare=st.integers(0, 3),
    stable_ms=st.sampled_from((0, 60_000)),
    retry_ms=st.sampled_from((0, 300_000)),
)


def room(view: MixView, market: Market) -> int:
    return sum(pool.most for pool in view.pools if pool.market is market)


def total(view: MixView, shares: dict[str, Share], market: Market) -> int:
    return sum(shares[pool.name].share for pool in view.pools if pool.market is market)


@given(VIEWS, ANY_KNOBS)
def test_every_pool_stays_within_its_bounds(
    seen: tuple[MixView, MixMemory], knobs: MixKnobs
) -> None:
    view, memory = seen
    _, shares = decide_mix("m", view, memory, knobs)
    assert shares.keys() == {pool.name for pool in view.pools}
    for pool in view.pools:
        assert pool.least <= shares[pool.name].share <= pool.most
        assert shares[pool.name].why


@given(VIEWS, ANY_KNOBS)
def test_base_is_kept_on_reserved_capacity_whatever_the_calls_need(
    seen: tuple[MixView, MixMemory], knobs: MixKnobs
) -> None:
    view, memory = seen
    _, shares = decide_mix("m", view, memory, knobs)
    held = min(knobs.base, room(view, Market.RESERVED))
    assert total(view, dict(shares), Market.RESERVED) >= held


@given(VIEWS, ANY_KNOBS)
def test_what_is_ready_and_what_bridges_are_never_planned_below_the_need(
    seen: tuple[MixView, MixMemory], knobs: MixKnobs
) -> None:
    """What is being launched on spot does not count, nor what reserved capacity cannot start."""
    view, memory = seen
    _, shares = decide_mix("m", view, memory, knobs)
    plan = {pool.name: shares[pool.name].share for pool in view.pools}
    there = sum(
        min(pool.ready, plan[pool.name]) if _is_doubtful(pool) else plan[pool.name]
        for pool in view.pools
    )
    could = sum(p.most for p in view.pools if p.market is Market.ON_DEMAND)
    bridged = sum(plan[p.name] for p in view.pools if p.market is Market.ON_DEMAND)
    assert there >= view.need or bridged == could


def _is_doubtful(pool: MixPool) -> bool:
    return pool.market is Market.SPOT or (pool.market is Market.RESERVED and pool.barred)


@given(VIEWS, ANY_KNOBS, st.integers(0, 6))
def test_more_demand_never_means_fewer_replicas(
    seen: tuple[MixView, MixMemory], knobs: MixKnobs, more: int
) -> None:
    """Where spot is worth its cost for both needs, or for none: a spare is dearer for few."""
    view, memory = seen
    assume(view.need > 0)
    _, fewer = decide_mix("m", view, memory, knobs)
    _, most = decide_mix("m", replace(view, need=view.need + more), memory, knobs)
    assume(all(_is_worth(fewer[name]) == _is_worth(most[name]) for name in fewer))
    assert sum(s.share for s in most.values()) >= sum(s.share for s in fewer.values())


def _is_worth(share: Share) -> bool:
    return (share.cost_ratio or 0.0) <= WORTH


@given(VIEWS, ANY_KNOBS)
def test_zone_that_lost_gets_nothing_new_while_two_others_are_active(
    seen: tuple[MixView, MixMemory], knobs: MixKnobs
) -> None:
    view, memory = seen
    _, shares = decide_mix("m", view, memory, knobs)
    spot = [p for p in view.pools if p.market is Market.SPOT and _is_worth(shares[p.name])]
    aside = {p.zone for p in spot if p.is_aside(view.at_ms, knobs.retry_ms)}
    active = {p.zone for p in spot} - aside
    for each in spot:
        if each.zone in aside and len(active) >= 2:
            assert shares[each.name].share <= max(each.ready, each.least)


@given(VIEWS, ANY_KNOBS)
def test_zone_that_lost_gets_nothing_new_while_an_active_one_has_room(
    seen: tuple[MixView, MixMemory], knobs: MixKnobs
) -> None:
    view, memory = seen
    _, shares = decide_mix("m", view, memory, knobs)
    spot = [p for p in view.pools if p.market is Market.SPOT and _is_worth(shares[p.name])]
    target = next(iter(shares.values())).spot_target
    zones = {p.zone for p in spot}
    in_zone = {zone: sum(shares[p.name].share for p in spot if p.zone == zone) for zone in zones}
    aside = {p.zone for p in spot if p.is_aside(view.at_ms, knobs.retry_ms)}
    free = [
        p
        for p in spot
        if p.zone not in aside
        and shares[p.name].share < p.most
        and in_zone[p.zone] <= target // len(zones)
    ]
    for each in spot:
        if each.zone in aside and free:
            assert shares[each.name].share <= max(each.ready, each.least)


@given(VIEWS, ANY_KNOBS)
def test_decision_is_a_function(seen: tuple[MixView, MixMemory], knobs: MixKnobs) -> None:
    view, memory = seen
    backwards = replace(view, pools=view.pools[::-1])
    assert decide_mix("m", view, memory, knobs) == decide_mix("m", view, memory, knobs)
    (one, shares), (other, same) = (
        decide_mix("m", each, memory, knobs) for each in (view, backwards)
    )
    assert one == other and shares == same


@given(st.integers(1, 5), st.integers(1, 59), st.integers(1, 8))
def test_square_wave_of_losses_moves_no_on_demand_replica(
    need: int, half_s: int, lost_each: int
) -> None:
    """A zone loses and gets back replicas in less than the stable time: on-demand rises once."""
    memory, at_ms, counts = NOTHING, 0, []
    knobs = replace(KNOBS, base=0, spare=0)
    for step in range(40):
        at_ms += half_s * 1000
        ready = need if step % 2 else max(0, need - lost_each)
        pools = (ON_DEMAND, replace(SPOT[0], ready=ready, target=need))
        memory, shares = decide_mix("m", _view(at_ms, need, pools), memory, knobs)
        counts.append(shares["rented"].share)
    assert counts[0] == min(need, lost_each) and len(set(counts)) == 1


def _view(at_ms: int, need: int, pools: tuple[MixPool, ...]) -> MixView:
    return MixView(at_ms=at_ms, need=need, start_s=30.0, pools=pools)


def test_on_demand_bridges_at_once_and_goes_one_by_one_after_spot_is_stable() -> None:
    memory, shares = decide_mix("m", _view(0, 4, POOLS), NOTHING, KNOBS)
    assert {name: share.share for name, share in shares.items()} == {
        "reserved": 1,
        "rented": 3,
        "spot-a": 2,
        "spot-b": 1,
        "spot-c": 1,
    }
    ready = (
        replace(RESERVED, ready=1),
        replace(ON_DEMAND, ready=3),
        replace(SPOT[0], ready=2),
        *(replace(each, ready=1) for each in SPOT[1:]),
    )
    counts = []
    for at_ms in range(1_000, 260_000, 10_000):
        memory, shares = decide_mix("m", _view(at_ms, 4, ready), memory, KNOBS)
        counts.append(shares["rented"].share)
    assert counts == [3] * 6 + [2] * 6 + [1] * 6 + [0] * 8
    assert shares["spot-a"].spot_target == 4 and shares["spot-a"].spot_ready == 4


def test_lost_zone_is_left_for_the_others_and_tried_again_later() -> None:
    memory = MixMemory({"spot-a": 2, "spot-b": 1, "spot-c": 1})
    lost = (replace(SPOT[0], trouble_ms=1_000), *(replace(each, ready=1) for each in SPOT[1:]))
    memory, shares = decide_mix("m", _view(2_000, 3, (ON_DEMAND, *lost)), memory, _free())
    assert [shares[each.name].share for each in SPOT] == [0, 3, 1]
    assert shares["spot-a"].why == "a is set aside for 299 s"
    memory, shares = decide_mix("m", _view(400_000, 5, (ON_DEMAND, *lost)), memory, _free())
    assert [shares[each.name].share for each in SPOT] == [2, 3, 1]


def _free() -> MixKnobs:
    return replace(KNOBS, base=0)


def test_zones_that_were_set_aside_are_tried_when_only_one_is_left() -> None:
    gone = tuple(replace(each, trouble_ms=1_000) for each in SPOT[:2])
    _, shares = decide_mix("m", _view(2_000, 3, (ON_DEMAND, *gone, SPOT[2])), NOTHING, _free())
    assert [shares[each.name].share for each in SPOT] == [0, 0, 4]
    small = replace(SPOT[2], most=2)
    _, shares = decide_mix("m", _view(2_000, 3, (ON_DEMAND, *gone, small)), NOTHING, _free())
    assert [shares[each.name].share for each in SPOT] == [1, 1, 2]
    assert shares["spot-a"].why.endswith("and tried as fewer than two are left")


def test_spot_that_costs_nearly_as_much_as_on_demand_goes_when_that_is_ready() -> None:
    dear = tuple(replace(each, cost=0.9, ready=1) for each in SPOT)
    memory, shares = decide_mix("m", _view(0, 3, (ON_DEMAND, *dear)), NOTHING, _free())
    assert [shares[each.name].share for each in (ON_DEMAND, *SPOT)] == [3, 1, 1, 1]
    assert shares["spot-a"].why == "spot costs 1.20 of on-demand, more than 0.85"
    ready = replace(ON_DEMAND, ready=2)
    memory, shares = decide_mix("m", _view(1_000, 3, (ready, *dear)), memory, _free())
    assert [shares[each.name].share for each in (ON_DEMAND, *SPOT)] == [3, 1, 0, 0]


def test_losses_count_as_cost() -> None:
    shaky = tuple(replace(each, losses_per_s=1 / 60) for each in SPOT)
    _, shares = decide_mix("m", _view(0, 8, (ON_DEMAND, *shaky)), NOTHING, _free())
    assert shares["spot-a"].cost_ratio == 0.9875 and shares["rented"].share == 8


def test_room_on_reserved_capacity_bridges_before_on_demand() -> None:
    larger = replace(RESERVED, most=3)
    _, shares = decide_mix("m", _view(0, 4, (larger, ON_DEMAND, *SPOT)), NOTHING, KNOBS)
    assert (shares["reserved"].share, shares["rented"].share) == (3, 1)
    assert shares["reserved"].why == "1 of the base, 2 in place of spot"


def test_base_that_cannot_start_is_bridged() -> None:
    barred = replace(RESERVED, barred=True)
    _, shares = decide_mix("m", _view(0, 1, (barred, ON_DEMAND, *SPOT)), NOTHING, KNOBS)
    assert shares["rented"].share == 1


def test_replicas_beyond_their_share_bridge_nothing() -> None:
    """They are on their way out."""
    lost = replace(SPOT[0], ready=4, trouble_ms=999)
    memory = MixMemory({"spot-a": 1, "spot-b": 2})
    _, shares = decide_mix("m", _view(1_000, 3, (ON_DEMAND, lost, *SPOT[1:])), memory, _free())
    assert shares["spot-a"].share == 1 and shares["rented"].share == 3


def test_spot_that_is_not_worth_its_cost_keeps_its_least() -> None:
    dear = replace(SPOT[0], cost=0.9, least=1)
    _, shares = decide_mix("m", _view(0, 3, (ON_DEMAND, dear)), NOTHING, _free())
    assert (shares["rented"].share, shares["spot-a"].share) == (3, 1)


def test_on_demand_goes_at_once_when_fewer_are_needed() -> None:
    memory, _ = decide_mix("m", _view(0, 6, (ON_DEMAND, *SPOT)), NOTHING, _free())
    _, shares = decide_mix("m", _view(1_000, 2, (ON_DEMAND, *SPOT)), memory, _free())
    assert shares["rented"].share == 2
    _, shares = decide_mix("m", _view(1_000, 0, (ON_DEMAND, *SPOT)), memory, _free())
    assert all(share.share == 0 for share in shares.values())


def test_reserved_capacity_that_cannot_start_bridges_nothing() -> None:
    barred = replace(RESERVED, barred=True, most=3)
    _, shares = decide_mix("m", _view(0, 4, (barred, ON_DEMAND, *SPOT)), NOTHING, KNOBS)
    assert (shares["reserved"].share, shares["rented"].share) == (1, 4)


def test_zone_set_aside_is_not_tried_where_two_active_ones_have_no_room() -> None:
    full = tuple(replace(each, most=1) for each in SPOT[:2])
    lost = replace(SPOT[2], trouble_ms=999)
    _, shares = decide_mix("m", _view(1_000, 5, (ON_DEMAND, *full, lost)), NOTHING, _free())
    assert [shares[each.name].share for each in SPOT] == [1, 1, 0]


def test_order_of_pools_says_nothing() -> None:
    alike = tuple(replace(each, cost=0.3) for each in SPOT)
    plans = [
        decide_mix("m", _view(0, 1, (ON_DEMAND, *each)), NOTHING, _free())[1]
        for each in (alike, alike[::-1])
    ]
    assert plans[0] == plans[1]


def test_what_is_not_ready_leaves_first_then_a_zone_set_aside_then_the_dearest() -> None:
    memory = MixMemory({each.name: 2 for each in SPOT})
    counts = []
    for spot in (
        (SPOT[0], *(replace(each, ready=2) for each in SPOT[1:])),
        (replace(SPOT[0], ready=2, trouble_ms=999), *(replace(e, ready=2) for e in SPOT[1:])),
        tuple(replace(each, ready=2) for each in SPOT),
    ):
        _, shares = decide_mix("m", _view(1_000, 3, (ON_DEMAND, *spot)), memory, _free())
        counts.append([shares[each.name].share for each in SPOT])
    assert counts == [[0, 2, 2], [0, 2, 2], [2, 2, 0]]


def test_zone_with_more_than_its_share_gives_up_first() -> None:
    memory = MixMemory({"spot-a": 5, "spot-b": 1, "spot-c": 1})
    spot = tuple(replace(each, ready=memory.shares[each.name]) for each in SPOT)
    _, shares = decide_mix("m", _view(1_000, 3, (ON_DEMAND, *spot)), memory, _free())
    assert [shares[each.name].share for each in SPOT] == [3, 1, 0]


def test_on_demand_that_cannot_start_is_the_last_to_bridge() -> None:
    barred = replace(ON_DEMAND, name="cheaper", cost=0.9, barred=True)
    _, shares = decide_mix("m", _view(0, 2, (barred, ON_DEMAND, *SPOT)), NOTHING, _free())
    assert (shares["cheaper"].share, shares["rented"].share) == (0, 2)
