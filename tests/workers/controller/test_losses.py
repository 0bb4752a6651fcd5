"""Pools that lost their replicas, from one round to the next and from one controller to another."""

import msgspec

from workers.autoscaling.recoveries import LostPart
from workers.controller.fleet_publisher import Fleet, PoolEntry, ReplicaEntry
from workers.controller.losses import RAY, Losses

WARM = ReplicaEntry("r", "http://h", "WARM", 0, 0, 0)


def entry(name: str, *replicas: ReplicaEntry, **fields: object) -> PoolEntry:
    return PoolEntry(name, 1, "", 8.0, 0, replicas, **fields)  # type: ignore[arg-type]


def fleet(*pools: PoolEntry, **recoveries: list[float]) -> Fleet:
    made = Fleet(1, 1, 0, "ctl", pools, {k.replace("_", ":"): v for k, v in recoveries.items()})
    return msgspec.json.decode(msgspec.json.encode(made), type=Fleet)


def test_cluster_that_is_away_is_told_as_such_and_measured() -> None:
    losses = Losses()
    losses.note("p", has_one=True, is_wanted=True, gone=None, at_ms=0)
    assert losses.ready_at_ms("p", 8.0, 0) is None
    for at_ms, gone in (
        (1_000, None),
        (2_000, LostPart.RAY),
        (3_000, LostPart.CLUSTER),
        (9_000, None),
    ):
        losses.note("p", has_one=False, is_wanted=True, gone=gone, at_ms=at_ms)
    assert losses.ready_at_ms("p", 8.0, 9_000) == 48_500
    losses.note("p", has_one=True, is_wanted=True, gone=None, at_ms=21_000)
    assert losses.took == {"cluster:p": (20.0,)}
    losses.note("p", has_one=False, is_wanted=True, gone=LostPart.CLUSTER, at_ms=30_000)
    assert losses.ready_at_ms("p", 8.0, 35_000) == 55_000, "a quarter more than it took"


def test_pools_that_lose_their_replicas_together_lost_ray() -> None:
    """Also where Ray answers: a raylet that died is another one soon."""
    losses = Losses()
    for pool in ("p", "q", "r"):
        losses.note(pool, has_one=True, is_wanted=True, gone=None, at_ms=0)
    losses.note("r", has_one=False, is_wanted=True, gone=None, at_ms=10_000)
    assert losses.ready_at_ms("r", 8.0, 10_000) == 20_000
    losses.note("p", has_one=False, is_wanted=True, gone=None, at_ms=20_000)
    assert losses.ready_at_ms("p", 8.0, 20_000) == 30_000
    losses.note("q", has_one=False, is_wanted=True, gone=None, at_ms=20_300)
    assert losses.ready_at_ms("p", 8.0, 20_300) == 45_000
    assert losses.ready_at_ms("q", 8.0, 20_300) == 45_300
    assert losses.ready_at_ms("r", 8.0, 20_300) < 30_300, "that was another loss"


def test_pool_that_is_taken_down_is_no_loss() -> None:
    losses = Losses()
    losses.note("p", has_one=True, is_wanted=True, gone=None, at_ms=0)
    losses.note("p", has_one=False, is_wanted=False, gone=None, at_ms=1_000)
    assert losses.ready_at_ms("p", 8.0, 1_000) is None
    losses.note("p", has_one=False, is_wanted=True, gone=None, at_ms=2_000)
    assert losses.ready_at_ms("p", 8.0, 2_000) is None, "a cold start is no loss"
    assert losses.took == {}


def test_cold_pool_waits_for_the_cluster_and_for_its_start() -> None:
    losses = Losses()
    losses.note(RAY, has_one=True, is_wanted=True, gone=None, at_ms=0)
    losses.note(RAY, has_one=False, is_wanted=True, gone=LostPart.CLUSTER, at_ms=0)
    assert losses.ready_at_ms("cold", 8.0, 10_000) == 37_500 + 8_000


def test_next_controller_goes_on_where_the_last_one_stopped() -> None:
    losses = Losses()
    losses.begin(
        fleet(entry("p", lost_since_ms=5_000, gone="cluster"), entry("q", WARM), cluster_p=[22.0])
    )
    losses.note("p", has_one=False, is_wanted=True, gone=None, at_ms=7_000)
    losses.note("q", has_one=False, is_wanted=True, gone=LostPart.RAY, at_ms=7_000)
    assert losses.ready_at_ms("p", 8.0, 7_000) == 32_500
    assert losses.ready_at_ms("q", 8.0, 7_000) == 7_000 + 25_000
