"""Spares and what nobody takes of nodes: with the replicas on it a node costs what it costs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from billing.costs.lifetimes import bills, decode_report
from tests.workers.published import make_pool
from workers.controller.fleet_publisher import NodeEntry
from workers.controller.lifetimes import Life, LiveReplica, Price, look
from workers.controller.round.upkeep import (
    SPARE_CPUS,
    SPARES,
    Spares,
    pool_of_nodes,
    spares_by_type,
    upkeep,
)
from workers.nodes.node_type import HEAD, NodeType
from workers.ray.file import RayFile
from workers.ray.session import members, session_of

BASE = NodeType(name="base", market="reserved", cpus=4, cost_nanousd_per_s=20_000)
TYPES = (BASE,)
PRICES = {"p": Price("m", 6_000), "q": Price("m", 1_000)}
S = 1_000_000


def node(id: str = "base-1", state: str = "ready", cost: int = 20_000) -> NodeEntry:
    return NodeEntry(id, "base", "reserved", None, state, cost, 0, 1_000)


def beside(
    *replicas: LiveReplica,
    nodes: tuple[NodeEntry, ...] = (node(),),
    spares: dict[str, int] | None = None,
    at_us: int = 5 * S,
) -> list[LiveReplica]:
    return upkeep(
        replicas,
        PRICES,
        nodes=nodes,
        types=TYPES,
        spares=spares or {},
        pools=[make_pool("p", "m", num_cpus=0.25, cost_nanousd_per_s=6_000)],
        life="7",
        at_us=at_us,
    )


@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from((1.0, 0.1))), max_size=6),
    st.integers(0, 3),
)
def test_node_costs_what_runs_there_and_what_nobody_takes(
    there: list[tuple[str, float]], spares: int
) -> None:
    replicas = [
        LiveReplica(f"r{n}", pool, S, price_share=share, node="base-1")
        for n, (pool, share) in enumerate(there)
    ]
    others = beside(*replicas, spares={"base-1": spares})
    of_replicas = sum(PRICES[one.pool].nanousd_per_s * one.price_share for one in replicas)
    of_others = sum(one.nanousd_per_s or 0 for one in others)
    assert all((one.nanousd_per_s or 0) >= 0 for one in others)
    assert round(of_replicas + of_others) >= 20_000
    if of_replicas + spares * SPARE_CPUS * 5_000 <= 20_000:
        assert abs(of_replicas + of_others - 20_000) <= 1
    assert sum(one.pool == SPARES for one in others) == bool(spares)


def test_replicas_elsewhere_take_nothing_of_a_node() -> None:
    (idle,) = beside(LiveReplica("r", "p", S), LiveReplica("s", "p", S, node="other"))
    assert (idle.pool, idle.nanousd_per_s) == (pool_of_nodes("base"), 20_000)


def test_nodes_that_ended_or_cost_nothing_have_no_life() -> None:
    assert beside(nodes=(node(state="lost"), node(state="gone"), node(cost=0))) == []


def test_spares_of_the_head_cost_as_a_part_of_a_core_there() -> None:
    (spare,) = beside(nodes=(), spares={HEAD: 2})
    assert (spare.pool, spare.nanousd_per_s) == (SPARES, round(2 * SPARE_CPUS * 24_000))


def test_ledger_reads_idle_time_of_a_node_at_the_price_of_each_second() -> None:
    """Two seconds with a replica of 6,000 on it, then three without; it was being launched for
    four seconds before."""
    lives: dict[str, Life] = {}
    reports = []
    on_it = LiveReplica("r", "p", S, node="base-1")
    for at_s, replicas, state in ((4, (), "launching"), (5, (on_it,), "ready")):
        others = beside(*replicas, nodes=(node(state=state),), at_us=at_s * S)
        lives, new = look(lives, others, PRICES, at_us=at_s * S, every_us=60 * S)
        reports += new
    for at_s, replicas in ((7, (on_it,)), (7, ()), (10, ())):
        others = beside(*replicas, at_us=at_s * S)
        lives, new = look(lives, others, PRICES, at_us=at_s * S, every_us=60 * S)
        reports += new
    lives, new = look(lives, [], PRICES, at_us=10 * S, every_us=60 * S)
    reports += new
    read = [decode_report(msgspec.json.encode(report)) for report in reports]
    (bill,) = bills(sorted(read, key=lambda report: report.until_us)).values()
    assert bill.busy_nanousd == 0
    assert bill.cold_start_us == 4 * S
    assert abs(bill.nanousd - (4 * 20_000 + 2 * 14_000 + 3 * 20_000)) <= 20_000


def test_spares_of_a_type_are_added_up_for_the_fleet() -> None:
    nodes = (node(), node("base-2"))
    counts = {"base-1": 1, "base-2": 2, HEAD: 1}
    assert spares_by_type(counts, nodes) == {"base": 3, HEAD: 1}


async def test_spares_are_counted_among_the_processes_of_a_cluster(tmp_path: Path) -> None:
    program = tmp_path / "sluice spare"
    program.symlink_to("/bin/sleep")
    leader = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", f"'{program}' 600 & '{program}' 600 & exec sleep 600"),
        start_new_session=True,
    )
    try:
        place = RayFile("", "", "", 0, (0, 0), str(tmp_path), session_of(leader.pid))
        spares = Spares()
        at_ms = 10_000
        while spares.counts != {HEAD: 2}:
            await spares.count(place, (), at_ms)
            at_ms += 5_000
            assert at_ms < 10_000_000
        await spares.count(None, (), at_ms - 1)
        assert spares.counts == {HEAD: 2}, "not counted again within five seconds"
        await spares.count(None, (), at_ms)
        assert spares.counts == {}
    finally:
        for process in members(session_of(leader.pid)):
            process.kill()
        await leader.wait()
