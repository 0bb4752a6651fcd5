"""One declarative document in which a pool's change touches no other pool."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from ray.serve.schema import RayActorOptionsSchema

from tests.workers.engines.simulated.cards import H100
from tests.workers.published import make_model, make_pool
from workers.catalog import Catalog, Pool
from workers.deployments.engine_app import EngineAppArgs
from workers.nodes.node_type import DRAIN_S, NodeType
from workers.ray.file import RayFile
from workers.ray.serve_api import AppDetails, DeploymentDetails, ServeDetails
from workers.ray.serve_apps import app_name, graceful_shutdown_s, older_apps, serve_config
from workers.ray.session import Session
from workers.settings import WorkersSettings
from workers.weights.wanted import WantedWeights

PLACE = RayFile(
    dashboard_url="http://127.0.0.1:1",
    gcs_address="127.0.0.2:2",
    node_ip="127.0.0.2",
    serve_proxy_port=3,
    ingress_ports=(4, 5),
    temp_dir="/tmp/x",
    session=Session(1, 0.0),
)
SETTINGS = WorkersSettings()
A, B = make_pool("a", "m"), make_pool("b", "m", max_ongoing=4)


@dataclass
class FakeServe:
    """Remembers documents as Serve does, and scales as it is told."""

    details: ServeDetails

    def put(self, document: dict[str, Any]) -> None:
        apps = {
            app["name"]: self._deployed(app, self.details.applications.get(app["name"]))
            for app in document["applications"]
        }
        self.details = ServeDetails(applications=apps)

    def scale(self, app: str, count: int) -> None:
        deployment = DeploymentDetails("engine", "HEALTHY", target_num_replicas=count)
        apps = dict(self.details.applications)
        apps[app] = msgspec.structs.replace(apps[app], deployments={"engine": deployment})
        self.details = ServeDetails(applications=apps)

    def _deployed(self, app: dict[str, Any], before: AppDetails | None) -> AppDetails:
        if before is not None and before.deployed_app_config == app:
            return before
        count = app["deployments"][0]["num_replicas"]
        deployment = DeploymentDetails("engine", "UPDATING", target_num_replicas=count)
        return AppDetails(
            app["name"], "RUNNING", deployed_app_config=app, deployments={"engine": deployment}
        )


def catalog(*pools: Pool, path: str = "/models/m") -> Catalog:
    return Catalog(1, models=(make_model("m", path),), pools=pools)


def document(
    serve: FakeServe,
    *pools: Pool,
    done: Sequence[str] = (),
    later: Sequence[str] = (),
    rebuild: bool = False,
) -> dict[str, Any] | None:
    return serve_config(
        catalog(*pools),
        serve.details,
        SETTINGS,
        place=PLACE,
        done=done,
        later=later,
        rebuild=rebuild,
    )


def deployed(*pools: Pool) -> FakeServe:
    serve = FakeServe(ServeDetails())
    first = document(serve, *pools)
    assert first is not None
    serve.put(first)
    return serve


def name_of(pool: Pool) -> str:
    return app_name(pool, catalog(pool), SETTINGS)


def counts(config: dict[str, Any] | None) -> dict[str, int]:
    assert config is not None
    return {app["name"]: app["deployments"][0]["num_replicas"] for app in config["applications"]}


def test_all_pools_are_in_one_document() -> None:
    assert counts(document(FakeServe(ServeDetails()), A, B)) == {name_of(A): 1, name_of(B): 1}


def test_what_is_deployed_is_not_deployed_again() -> None:
    serve = deployed(A, B)
    serve.scale(name_of(A), 0)
    serve.scale(name_of(B), 3)
    assert document(serve, A, B) is None


def test_bounds_and_idle_time_are_no_concern_of_serve() -> None:
    changed = msgspec.structs.replace(A, min_replicas=1, max_replicas=9, idle_s=1.0)
    assert document(deployed(A, B), changed, B) is None


CHANGED = msgspec.structs.replace(B, max_ongoing=9)


def test_a_changed_pool_is_another_application_beside_the_one_it_has() -> None:
    serve = deployed(A, B)
    serve.scale(name_of(A), 2)
    serve.scale(name_of(B), 3)
    before = dict(serve.details.applications)
    config = document(serve, A, CHANGED)
    assert counts(config).keys() == {name_of(A), name_of(B), name_of(CHANGED)}
    assert config is not None
    assert len({app["route_prefix"] for app in config["applications"]}) == 3
    serve.put(config)
    assert {name: serve.details.applications[name] for name in before} == before
    assert older_apps(CHANGED, name_of(CHANGED), serve.details) == (name_of(B),)
    assert document(serve, A, CHANGED) is None


def test_an_older_application_goes_when_it_is_done() -> None:
    serve = deployed(A, B)
    first = document(serve, A, CHANGED)
    assert first is not None
    serve.put(first)
    last = document(serve, A, CHANGED, done=[name_of(B)])
    assert counts(last).keys() == {name_of(A), name_of(CHANGED)}
    assert last is not None
    serve.put(last)
    assert document(serve, A, CHANGED, done=[name_of(B)]) is None


def test_same_pool_has_the_same_name_and_other_weights_another() -> None:
    names = {app_name(A, catalog(A, path=path), SETTINGS) for path in ("/x", "/y", "/x")}
    assert len(names) == 2
    assert all(name.startswith("pool-a.") for name in names)


def test_application_of_an_earlier_version_is_kept_until_it_is_done() -> None:
    """It was named by its pool alone."""
    serve = deployed(A)
    old = serve.details.applications[name_of(A)].deployed_app_config
    assert old is not None
    serve.put({"applications": [old | {"name": "pool-a", "route_prefix": "/a"}]})
    assert older_apps(A, name_of(A), serve.details) == ("pool-a",)
    assert counts(document(serve, A)).keys() == {"pool-a", name_of(A)}
    assert counts(document(serve, A, done=["pool-a"])).keys() == {name_of(A)}


def test_pool_whose_name_begins_like_anothers_is_not_taken_for_it() -> None:
    longer = make_pool("a-b", "m")
    assert older_apps(A, name_of(A), deployed(A, longer).details) == ()


def test_a_pool_that_left_the_catalog_is_removed() -> None:
    assert counts(document(deployed(A, B), A)) == {name_of(A): 1}


def test_an_application_that_comes_later_is_left_out_and_then_put_beside_the_others() -> None:
    serve = FakeServe(ServeDetails())
    first = document(serve, A, B, later=[name_of(B)])
    assert counts(first) == {name_of(A): 1}
    assert first is not None
    serve.put(first)
    assert document(serve, A, B, later=[name_of(B)]) is None
    assert counts(document(serve, A, B)) == {name_of(A): 1, name_of(B): 1}


def test_a_rebuild_puts_the_same_document_again() -> None:
    assert counts(document(deployed(A), A, rebuild=True)) == {name_of(A): 1}


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
    config = serve_config(read, ServeDetails(), SETTINGS, place=PLACE)
    assert config is not None
    plain, simulated = config["applications"]
    assert "roofline" not in plain["args"]
    bound = EngineAppArgs.model_validate(json.loads(json.dumps(simulated["args"])))
    again = EngineAppArgs.model_validate(bound.model_dump(mode="json"))
    assert again.engine_settings().roofline == H100


def test_a_pool_on_vllm_starts_with_its_interpreter_and_leaves_the_others_as_they_were() -> None:
    serve = deployed(A, B)
    before = serve.details.applications[name_of(A)].deployed_app_config
    config = document(serve, A, msgspec.structs.replace(B, engine="vllm", num_gpus=1.0))
    assert config is not None
    plain, on_vllm, _ = config["applications"]
    assert plain == before
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
    config = serve_config(catalog(*pools), ServeDetails(), settings, place=PLACE)
    assert config is not None
    bridge, cheap = [app["deployments"][0] for app in config["applications"]]
    assert bridge["ray_actor_options"]["label_selector"] == {"ray.io/market-type": "on-demand"}
    assert cheap["ray_actor_options"]["label_selector"] == {
        "ray.io/market-type": "spot",
        "ray.io/availability-zone": "a",
    }
    assert cheap["graceful_shutdown_timeout_s"] == 16.0
    assert bridge["graceful_shutdown_timeout_s"] == 24.0 < DRAIN_S
    [alone] = (document(FakeServe(ServeDetails()), pools[1]) or {})["applications"]
    assert "label_selector" not in alone["deployments"][0]["ray_actor_options"]


ID = "a" * 64
GATEWAY = "http://10.0.0.5:8080"


def with_weights(**fields: Any) -> Catalog:
    model = make_model("m", f"/data/weights/{ID}")
    pools = (make_pool("a", "m", capacity_class="on_demand"),)
    return Catalog(1, (msgspec.structs.replace(model, checksum=ID, **fields),), pools)


def only_app(of: Catalog, settings: WorkersSettings, **more: Any) -> dict[str, Any]:
    config = serve_config(of, ServeDetails(), settings, place=PLACE, **more)
    assert config is not None
    [app] = config["applications"]
    return dict(app)


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
    config = serve_config(with_weights(), serve.details, settings, place=PLACE)
    assert config is not None
    serve.put(config)
    later = serve_config(
        *(with_weights(), serve.details, settings), place=PLACE, holders=lambda id: ["e0"]
    )
    assert later is None
