"""Applications in which a pool's change touches no other pool, and none of others."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.serve.schema import RayActorOptionsSchema

from tests.workers.engines.simulated.cards import H100
from tests.workers.published import make_model, make_pool
from workers.catalog import Catalog, Pool
from workers.deployments.engine_app import EngineAppArgs
from workers.nodes.node_type import DRAIN_S, NodeType
from workers.ray.app_names import pool_of
from workers.ray.serve_api import AppDetails, DeploymentDetails, ServeDetails
from workers.ray.serve_apps import (
    App,
    AppChanges,
    app_changes,
    app_name,
    graceful_shutdown_s,
    older_apps,
)
from workers.settings import WorkersSettings
from workers.weights.wanted import WantedWeights

SETTINGS = WorkersSettings()
A, B = make_pool("a", "m"), make_pool("b", "m", max_ongoing=4)


@dataclass
class FakeServe:
    """Remembers applications as Serve does, and scales as it is told."""

    details: ServeDetails

    def follow(self, changes: AppChanges) -> None:
        apps = dict(self.details.applications)
        for app in changes.deploy:
            [options] = app["deployments"]
            count = options["num_replicas"]
            deployment = DeploymentDetails("engine", "UPDATING", target_num_replicas=count)
            apps[app["name"]] = AppDetails(app["name"], "RUNNING", "", {"engine": deployment})
        for name in changes.delete:
            apps[name] = msgspec.structs.replace(apps[name], status="DELETING")
        self.details = ServeDetails(applications=apps)


def catalog(*pools: Pool, path: str = "/models/m") -> Catalog:
    return Catalog(1, models=(make_model("m", path),), pools=pools)


def changes(
    serve: FakeServe, *pools: Pool, done: Sequence[str] = (), later: Sequence[str] = ()
) -> AppChanges:
    return app_changes(catalog(*pools), serve.details, SETTINGS, done=done, later=later)


def apps_of(*pools: Pool, settings: WorkersSettings = SETTINGS) -> list[App]:
    return list(app_changes(catalog(*pools), ServeDetails(), settings).deploy)


def deployed(*pools: Pool) -> FakeServe:
    serve = FakeServe(ServeDetails())
    serve.follow(changes(serve, *pools))
    return serve


def name_of(pool: Pool) -> str:
    return app_name(pool, catalog(pool), SETTINGS)


def names(apps: Sequence[App]) -> list[str]:
    return [app["name"] for app in apps]


NOTHING = AppChanges()
CHANGED = msgspec.structs.replace(B, max_ongoing=9)


def test_each_pool_is_an_application_of_its_own() -> None:
    apps = apps_of(A, B)
    assert names(apps) == [name_of(A), name_of(B)]
    assert [pool_of(app["name"]) for app in apps] == ["a", "b"]
    assert len({app["route_prefix"] for app in apps}) == 2


def test_what_is_deployed_is_not_deployed_again() -> None:
    assert changes(deployed(A, B), A, B) == NOTHING


def test_bounds_and_idle_time_are_no_concern_of_serve() -> None:
    changed = msgspec.structs.replace(A, min_replicas=1, max_replicas=9, idle_s=1.0)
    assert changes(deployed(A, B), changed, B) == NOTHING


def test_a_changed_pool_is_another_application_beside_the_one_it_has() -> None:
    serve = deployed(A, B)
    change = changes(serve, A, CHANGED)
    assert (names(change.deploy), change.delete) == ([name_of(CHANGED)], ())
    serve.follow(change)
    assert older_apps(CHANGED, name_of(CHANGED), serve.details) == (name_of(B),)
    assert changes(serve, A, CHANGED) == NOTHING


def test_an_older_application_goes_when_it_is_done() -> None:
    serve = deployed(A, B)
    serve.follow(changes(serve, A, CHANGED))
    last = changes(serve, A, CHANGED, done=[name_of(B)])
    assert last == AppChanges(delete=(name_of(B),))
    serve.follow(last)
    assert changes(serve, A, CHANGED, done=[name_of(B)]) == NOTHING


def test_an_older_application_stays_while_the_new_one_waits_for_its_turn() -> None:
    assert changes(deployed(A, B), A, CHANGED, later=[name_of(CHANGED)]) == NOTHING


def test_an_application_that_is_wanted_again_while_it_goes_is_deployed_again() -> None:
    serve = deployed(A)
    serve.follow(AppChanges(delete=(name_of(A),)))
    assert names(changes(serve, A).deploy) == [name_of(A)]


def test_same_pool_has_the_same_name_and_other_weights_another() -> None:
    names = {app_name(A, catalog(A, path=path), SETTINGS) for path in ("/x", "/y", "/x")}
    assert len(names) == 2
    assert all(name.startswith("pool-a.") for name in names)


def test_pool_whose_name_begins_like_anothers_is_not_taken_for_it() -> None:
    longer = make_pool("a-b", "m")
    assert older_apps(A, name_of(A), deployed(A, longer).details) == ()


def test_a_pool_that_left_the_catalog_is_removed() -> None:
    assert changes(deployed(A, B), A) == AppChanges(delete=(name_of(B),))


@given(names=st.sets(st.text(max_size=20) | st.sampled_from(["pool-a", "pool-a.1", "default"])))
def test_an_application_of_another_name_is_never_deleted(names: set[str]) -> None:
    foreign = {name: AppDetails(name, "RUNNING") for name in names if pool_of(name) is None}
    apps = foreign | deployed(A, B).details.applications
    assert changes(FakeServe(ServeDetails(apps))).delete == (name_of(A), name_of(B))


def test_an_application_that_comes_later_is_left_out_and_then_deployed_beside_the_others() -> None:
    serve = FakeServe(ServeDetails())
    first = changes(serve, A, B, later=[name_of(B)])
    assert names(first.deploy) == [name_of(A)]
    serve.follow(first)
    assert changes(serve, A, B, later=[name_of(B)]) == NOTHING
    assert names(changes(serve, A, B).deploy) == [name_of(B)]


def test_external_disabled_and_pathless_pools_are_not_ours() -> None:
    pools = (
        A,
        make_pool("external", "m", base_url="https://elsewhere"),
        make_pool("off", "m", enabled=False),
        make_pool("nowhere", "pathless"),
    )
    models = (make_model("m", "/models/m"), make_model("pathless"))
    assert Catalog(1, models=models, pools=pools).own_pools == (A,)


def test_a_simulated_pool_starts_with_the_roofline_that_is_published_for_it() -> None:
    pool = msgspec.structs.replace(B, engine="simulated")
    published = msgspec.structs.replace(catalog(A, pool), rooflines={pool.name: H100})
    read = msgspec.json.decode(msgspec.json.encode(published), type=Catalog)
    plain, simulated = app_changes(read, ServeDetails(), SETTINGS).deploy
    assert "roofline" not in plain["args"]
    bound = EngineAppArgs.model_validate(json.loads(json.dumps(simulated["args"])))
    again = EngineAppArgs.model_validate(bound.model_dump(mode="json"))
    assert again.engine_settings().roofline == H100


def test_a_pool_on_vllm_starts_with_its_interpreter() -> None:
    [on_vllm] = apps_of(msgspec.structs.replace(B, engine="vllm", num_gpus=1.0))
    options = on_vllm["deployments"][0]["ray_actor_options"]
    assert options["runtime_env"] == {"py_executable": str(SETTINGS.vllm.interpreter)}
    assert options["num_gpus"] == 1.0
    args = EngineAppArgs.model_validate(on_vllm["args"])
    assert (args.engine, args.kv_cache_mb) == ("vllm", SETTINGS.vllm.kv_cache_mb)


@pytest.mark.parametrize(("notice_s", "expected_s"), [(30.0, 24.0), (0.0, 24.0), (2.0, 1.6)])
def test_serve_has_less_time_to_stop_a_replica_than_its_node_has(
    notice_s: float, expected_s: float
) -> None:
    """Serve would stop a replica the moment it hears of a drain that is shorter. A type without a
    notice is drained by people, who give DRAIN_S unless they say otherwise."""
    nodes = (NodeType(name="spot-a", market="spot", notice_s=notice_s),)
    pool = make_pool("cheap", "m", capacity_class="spot")
    assert graceful_shutdown_s(pool, WorkersSettings(nodes=nodes)) == pytest.approx(expected_s)
    assert expected_s < (notice_s or DRAIN_S)


def test_a_pool_without_nodes_has_all_the_time_of_the_settings() -> None:
    settings = WorkersSettings()
    assert graceful_shutdown_s(make_pool("cheap", "m"), settings) == 120.0


def test_a_pool_asks_for_its_nodes_by_label_and_stops_well_within_their_notice() -> None:
    nodes = (
        NodeType(name="base"),
        NodeType(name="spot-a", market="spot", zone="a", notice_s=20.0),
    )
    settings = WorkersSettings(nodes=nodes)
    pools = (
        make_pool("bridge", "m", capacity_class="on_demand"),
        make_pool("cheap", "m", capacity_class="spot", zone="a"),
    )
    bridge, cheap = [app["deployments"][0] for app in apps_of(*pools, settings=settings)]
    assert bridge["ray_actor_options"]["label_selector"] == {"ray.io/market-type": "on-demand"}
    assert cheap["ray_actor_options"]["label_selector"] == {
        "ray.io/market-type": "spot",
        "ray.io/availability-zone": "a",
    }
    assert cheap["graceful_shutdown_timeout_s"] == 16.0
    assert bridge["graceful_shutdown_timeout_s"] == 24.0 < DRAIN_S
    [alone] = apps_of(pools[1])
    assert "label_selector" not in alone["deployments"][0]["ray_actor_options"]


def test_a_pool_asks_for_memory_only_where_it_names_some() -> None:
    options = [
        app["deployments"][0]["ray_actor_options"]
        for app in apps_of(make_pool("a", "m"), make_pool("b", "m", memory_mb=300))
    ]
    assert [each.get("memory") for each in options] == [None, 300e6]


ID = "a" * 64
GATEWAY = "http://10.0.0.5:8080"


def with_weights(**fields: Any) -> Catalog:
    model = make_model("m", f"/data/weights/{ID}")
    pools = (make_pool("a", "m", capacity_class="on_demand"),)
    return Catalog(1, (msgspec.structs.replace(model, checksum=ID, **fields),), pools)


def only_app(of: Catalog, settings: WorkersSettings, **more: Any) -> dict[str, Any]:
    [app] = app_changes(of, ServeDetails(), settings, **more).deploy
    return app


def test_a_folder_of_this_machine_is_read_where_it_is() -> None:
    assert "weights" not in only_app(with_weights(), SETTINGS)["args"]
    shared = WorkersSettings(nodes=(NodeType(name="n"),))
    assert "weights" not in only_app(with_weights(), shared)["args"]


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ({"nodes": (NodeType(name="n", weights_gb=1.0),)}, None),
        ({"ray": {"weights_url": GATEWAY}}, None),
        ({}, "hf://org/name@commit"),
        ({}, "s3://bucket/prefix"),
    ],
)
def test_a_replica_is_told_how_to_fetch_what_is_not_on_its_node(
    settings: dict[str, Any], source: str | None
) -> None:
    settings = {"gateway": {"host": "0.0.0.0", "port": 9000}} | settings
    app = only_app(with_weights(origin=source), WorkersSettings(**settings))
    args = EngineAppArgs.model_validate(app["args"])
    url = GATEWAY if "ray" in settings else "http://127.0.0.1:9000"
    assert args.weights == WantedWeights(ID, url, source)


def test_nodes_that_have_the_checkpoint_are_wished_for_and_any_other_will_do() -> None:
    settings = WorkersSettings(nodes=(NodeType(name="n", weights_gb=1.0),))
    alone = only_app(with_weights(), settings)
    near = only_app(with_weights(), settings, holders={ID: ["f1", "e0"]}.__getitem__)
    assert near["name"] == alone["name"]
    labels = {"ray.io/market-type": "on-demand"}
    options = near["deployments"][0]["ray_actor_options"]
    assert options["label_selector"] == labels | {"ray.io/node-id": "in(e0, f1)"}
    assert options["fallback_strategy"] == [{"label_selector": labels}]
    RayActorOptionsSchema.model_validate(options)
    assert alone["deployments"][0]["ray_actor_options"]["label_selector"] == labels


def test_an_application_that_runs_is_not_replaced_when_other_nodes_have_its_checkpoint() -> None:
    settings = WorkersSettings(nodes=(NodeType(name="n", weights_gb=1.0),))
    serve = FakeServe(ServeDetails())
    serve.follow(app_changes(with_weights(), serve.details, settings))
    later = app_changes(with_weights(), serve.details, settings, holders=lambda id: ["e0"])
    assert later == NOTHING
