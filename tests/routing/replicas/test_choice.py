"""Which replica of a pool takes a call."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from routing.gauges import Gauges
from routing.replicas.choice import (
    ALL_WEIGHED_MAX,
    EXPLORED_SHARE,
    OVERLOAD,
    Demand,
    Option,
    able,
    choose,
    home_of,
    load_s,
    weighed,
    with_guess,
    work_of,
)
from routing.replicas.work import NO_WORK, Work
from routing.types import PoolState, ReplicaState
from tests.routing.fleets import any_pool_state, pool, replica, state
from tests.routing.replicas.options import SLOTS, demands, options, seeds, state_of

USUAL = Demand(400, 100)


def chosen(found: list[Option], demand: Demand, seed: int, *, is_stale: bool = False) -> Option:
    option = choose(state_of(found, is_stale=is_stale), found, demand, Random(seed))
    assert option is not None
    return option


@given(any_pool_state("p"), seeds, st.data())
def test_only_warm_replicas_that_are_not_excluded_are_chosen(
    of: PoolState, seed: int, data: st.DataObject
) -> None:
    ids = [r.id for r in of.replicas]
    excluded = data.draw(st.lists(st.sampled_from(ids))) if ids else []
    may = able(of, excluded)
    assert may == [r for r in of.replicas if r.state is ReplicaState.WARM and r.id not in excluded]
    option = choose(of, [Option(r) for r in may], USUAL, Random(seed))
    assert (option.replica in may) if option is not None else not may


@given(options(), demands, seeds, st.booleans())
def test_same_seed_chooses_the_same_replica(
    found: list[Option], demand: Demand, seed: int, is_stale: bool
) -> None:
    first = chosen(found, demand, seed, is_stale=is_stale)
    assert first == chosen(found, demand, seed, is_stale=is_stale)


@given(options(cached=False), demands, seeds)
def test_without_a_prefix_no_choice_is_worse_than_the_less_loaded_of_two(
    found: list[Option], demand: Demand, seed: int
) -> None:
    """So at most one replica that has room is more loaded than all others and chosen: none, where
    there are two."""
    speeds = state_of(found).speeds
    with_room = [o for o in found if has_room(o, demand)] or found
    loads = sorted(load_s(option.work, speeds) for option in with_room)
    taken = load_s(chosen(found, demand, seed).work, speeds)
    assert taken <= loads[max(0, len(loads) - 2)]
    if len(with_room) <= ALL_WEIGHED_MAX:
        assert taken == loads[0]


@given(options(least=2), demands, seeds)
def test_g43_affinity_never_beats_overload(found: list[Option], demand: Demand, seed: int) -> None:
    """What an overloaded replica has of the prompt changes no choice."""
    speeds = state_of(found).speeds
    among = [o for o in found if has_room(o, demand)] or found
    total_s = sum(load_s(o.work, speeds) for o in among) + load_s(work_of(demand), speeds)
    bound_s = OVERLOAD * total_s / len(among)

    def is_overloaded(option: Option) -> bool:
        return option not in among or load_s(option.work, speeds) > bound_s

    assume(any(is_overloaded(option) for option in found))
    bare = [o._replace(cached_tokens=0) if is_overloaded(o) else o for o in found]
    # Less in a cache may also mean less room for the call, which is another matter.
    assume([has_room(o, demand) for o in bare] == [has_room(o, demand) for o in found])
    if len(among) <= ALL_WEIGHED_MAX:
        seeded = chosen(found, demand, seed)
        assert seeded.replica == chosen(bare, demand, seed).replica
        assert not is_overloaded(seeded) or all(map(is_overloaded, among))


@given(options(least=2), demands, seeds)
def test_replica_without_a_slot_loses_to_any_that_has_one(
    found: list[Option], demand: Demand, seed: int
) -> None:
    assume(any(has_room(option, demand) for option in found))
    assert has_room(chosen(found, demand, seed), demand)


@given(options(most=ALL_WEIGHED_MAX), demands, seeds, st.data())
def test_more_work_never_makes_a_replica_win(
    found: list[Option], demand: Demand, seed: int, data: st.DataObject
) -> None:
    found = [option._replace(cached_tokens=0) for option in found]
    first = chosen(found, demand, seed)
    other = data.draw(st.sampled_from(found))
    more = data.draw(st.builds(Work, *[st.integers(0, 500)] * 4))
    busier = [
        o._replace(work=o.work.beside(more)) if o.replica.id == other.replica.id else o
        for o in found
    ]
    assume(other.replica.id != first.replica.id)
    assume([has_room(o, demand) for o in busier] == [has_room(o, demand) for o in found])
    speeds = state_of(found).speeds
    again = chosen(busier, demand, seed)
    assert load_s(again.work, speeds) == load_s(first.work, speeds)


@given(options(cached=True), demands, seeds)
def test_of_a_stale_picture_no_prefix_counts(
    found: list[Option], demand: Demand, seed: int
) -> None:
    bare = [o._replace(cached_tokens=0, replica=bare_of(o)) for o in found]
    stale = [o._replace(replica=bare_of(o)) for o in found]
    one = chosen(stale, demand, seed, is_stale=True)
    assert one.replica.id == chosen(bare, demand, seed, is_stale=True).replica.id


def test_prefix_wins_where_computing_the_prompt_again_would_take_longer_than_the_queue() -> None:
    near = Option(replica("near"), Work(1, 0, 400, 20), 384)
    idle = [Option(replica(name), Work(1, 0, 400, 10)) for name in ("a", "b")]
    taken = Counter(chosen([near, *idle], USUAL, seed).replica.id for seed in range(400))
    assert taken["near"] >= 400 * (1 - 3 * EXPLORED_SHARE)


def test_small_share_of_calls_is_placed_by_load_alone() -> None:
    near = Option(replica("near"), Work(1, 0, 400, 20), 384)
    idle = Option(replica("idle"), Work(1, 0, 400, 10))
    taken = Counter(chosen([near, idle], USUAL, seed).replica.id for seed in range(4000))
    assert 0 < taken["idle"] <= 4000 * 3 * EXPLORED_SHARE


def test_g43_a_whole_prompt_in_the_cache_of_an_overloaded_replica_is_worth_nothing() -> None:
    hot = Option(replica("hot"), Work(10, 0, 4000, 1000), 399)
    cool = [Option(replica(name), Work(5, 0, 2000, 500)) for name in ("a", "b")]
    assert {chosen([hot, *cool], USUAL, seed).replica.id for seed in range(200)} == {"a", "b"}


def test_full_replica_loses_whatever_it_has_in_its_cache() -> None:
    full = Option(replica("full"), Work(SLOTS, 0, 100, 10), 399)
    free = Option(replica("free"), Work(3, 0, 4000, 800))
    assert {chosen([full, free], USUAL, seed).replica.id for seed in range(50)} == {"free"}


def test_replica_without_memory_for_the_prompt_loses() -> None:
    tight = Option(replica("tight", gauges=Gauges(900, 1000)), Work(1, 0, 900, 1))
    roomy = Option(replica("roomy", gauges=Gauges(900, 9000)), Work(3, 0, 900, 800))
    assert {chosen([tight, roomy], USUAL, seed).replica.id for seed in range(50)} == {"roomy"}


def test_of_many_replicas_two_are_drawn_and_so_not_all_calls_go_to_the_least_loaded() -> None:
    many = [Option(replica(f"r{n}"), Work(1, 0, 0, n + 1)) for n in range(8)]
    taken = Counter(chosen(many, USUAL, seed).replica.id for seed in range(500))
    assert len(taken) == 7 and taken["r0"] < 250


def test_equal_replicas_share_the_calls() -> None:
    equal = [Option(replica(name)) for name in ("a", "b", "c")]
    taken = Counter(chosen(equal, USUAL, seed).replica.id for seed in range(300))
    assert min(taken[name] for name in ("a", "b", "c")) > 60


def test_calls_a_replica_reports_count_before_gateways_have_counted_any() -> None:
    of = state(pool(), replica("busy", running=3), replica("idle"))
    found = [Option(r, weighed(of, r, NO_WORK, USUAL)) for r in able(of)]
    ids = {choose(of, found, USUAL, Random(seed)).replica.id for seed in range(20)}  # type: ignore[union-attr]
    assert ids == {"idle"}


def test_of_a_stale_picture_what_gateways_counted_counts_alone() -> None:
    full = [replica(name, running=4) for name in ("busy", "idle")]
    of = state(pool(), *full, is_stale=True)
    counted = {"busy": Work(1, 100, 100, 50), "idle": NO_WORK}
    found = [Option(r, weighed(of, r, counted[r.id], USUAL)) for r in able(of)]
    ids = {choose(of, found, USUAL, Random(seed)).replica.id for seed in range(20)}  # type: ignore[union-attr]
    assert ids == {"idle"}


# --- hints ------------------------------------------------------------------------------------


@given(st.text(max_size=20), st.text(max_size=20), st.integers(1, 9), st.data())
def test_hint_leads_to_the_same_replica_in_any_order_and_after_another_one_is_gone(
    hint: str, salt: str, number: int, data: st.DataObject
) -> None:
    replicas = [replica(f"r{n}") for n in range(number)]
    home = home_of(hint, salt, replicas)
    shuffled = data.draw(st.permutations(replicas))
    assert home_of(hint, salt, shuffled) == home
    others = [r for r in replicas if r.id == home or data.draw(st.booleans())]
    assert home_of(hint, salt, others) == home


def test_hints_are_spread_and_differ_by_tenant() -> None:
    replicas = [replica(f"r{n}") for n in range(3)]
    homes = {salt: [home_of(f"s{n}", salt, replicas) for n in range(300)] for salt in "ab"}
    assert min(Counter(homes["a"]).values()) > 60
    assert homes["a"] != homes["b"]


@given(options(), demands)
def test_guess_counts_only_where_no_other_replica_is_known_to_have_more(
    found: list[Option], demand: Demand
) -> None:
    home = found[0]
    guessed = with_guess(found, home.replica.id, demand)
    assert guessed[1:] == found[1:]
    if any(o.cached_tokens > home.cached_tokens for o in found):
        assert guessed[0] == home
    else:
        assert guessed[0].cached_tokens >= max(home.cached_tokens, demand.prompt_tokens // 2)


def bare_of(option: Option):  # type: ignore[no-untyped-def]
    return replica(option.replica.id)


def has_room(option: Option, demand: Demand) -> bool:
    gauges = option.replica.gauges
    if option.work.calls >= SLOTS:
        return False
    if gauges is None or not gauges.kv_tokens_total:
        return True
    more = demand.prompt_tokens - option.cached_tokens
    return option.work.context_tokens + more <= gauges.kv_tokens_total
