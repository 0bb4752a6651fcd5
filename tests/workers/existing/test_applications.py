"""Applications of others, of other Sluices among them, are never taken for ours."""

import io
import zipfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.published import make_model, make_pool
from tests.workers.ray.test_serve_apps import PLACE, FakeServe
from workers.catalog import Catalog
from workers.existing.applications import document_without_ours, own_details
from workers.existing.package import own_package
from workers.ray.serve_api import AppDetails, ServeDetails
from workers.ray.serve_apps import app_name, older_apps, serve_config
from workers.settings import RaySettings, WorkersSettings

ADDRESS = RaySettings(address="http://10.0.0.1:8265")
OURS = WorkersSettings(ray=ADDRESS, worker_secret="ours")
THEIRS = WorkersSettings(ray=ADDRESS, worker_secret="theirs")
A, B = make_pool("a", "m"), make_pool("b", "m")
MODELS = (make_model("m", path="/models/m"),)
POOLS = st.sets(st.sampled_from("abc")).map(
    lambda names: Catalog(1, MODELS, tuple(make_pool(name, "m") for name in sorted(names)))
)


def app(name: str, config: dict[str, Any] | None) -> AppDetails:
    return AppDetails(name, "RUNNING", deployed_app_config=config)


FOREIGN = {
    "chat": app("chat", {"name": "chat", "import_path": "chat:app", "args": {"pool": "a"}}),
    "by-hand": app("by-hand", None),
}


def deployed(serve: FakeServe, catalog: Catalog, settings: WorkersSettings) -> None:
    """Rounds of a Sluice until it changes nothing."""
    for _ in range(3):
        details = own_details(serve.details, settings)
        config = serve_config(catalog, details, settings, place=PLACE)
        if config is None:
            return
        by_hand = {k: v for k, v in serve.details.applications.items() if v is FOREIGN["by-hand"]}
        serve.put(config)
        serve.details.applications.update(by_hand)
    raise AssertionError("it never settles")


def left(serve: FakeServe, settings: WorkersSettings) -> None:
    document = document_without_ours(own_details(serve.details, settings))
    if document is not None:
        by_hand = {k: v for k, v in serve.details.applications.items() if v is FOREIGN["by-hand"]}
        serve.put(document)
        serve.details.applications.update(by_hand)


class Served(FakeServe):
    def _deployed(self, app: dict[str, Any], before: AppDetails | None) -> AppDetails:
        return super()._deployed({"deployments": [{"num_replicas": 1}]} | app, before)


@given(first=POOLS, second=POOLS, last=POOLS)
def test_two_sluices_and_others_share_a_cluster(
    first: Catalog, second: Catalog, last: Catalog
) -> None:
    serve = Served(ServeDetails(applications=dict(FOREIGN)))
    for settings, catalog in ((OURS, first), (THEIRS, second), (OURS, last)):
        deployed(serve, catalog, settings)
    names = {
        app_name(pool, catalog, settings)
        for settings, catalog in ((OURS, last), (THEIRS, second))
        for pool in catalog.own_pools
    }
    assert names | set(FOREIGN) <= set(serve.details.applications)
    left(serve, OURS)
    assert not own_details(serve.details, OURS).applications
    assert {app_name(pool, second, THEIRS) for pool in second.own_pools} | set(FOREIGN) == set(
        serve.details.applications
    )


def test_an_application_of_others_is_no_older_one_of_a_pool() -> None:
    details = own_details(ServeDetails(applications=FOREIGN), OURS)
    assert older_apps(A, "pool-a.1", details) == ()


def test_an_app_brings_its_code_and_nothing_of_this_machine() -> None:
    serve = Served(ServeDetails())
    deployed(serve, Catalog(1, MODELS, (A,)), OURS)
    ((config,),) = [[each.deployed_app_config for each in serve.details.applications.values()]]
    assert config is not None
    assert config["runtime_env"]["working_dir"] == own_package().uri
    assert config["runtime_env"]["env_vars"]["SLUICE_WORKER_SECRET"] == "ours"
    assert "runtime_env" not in config["deployments"][0]["ray_actor_options"]


def test_packages_are_installed_by_ray_where_the_settings_name_some() -> None:
    ray = RaySettings(address="http://10.0.0.1:8265", packages=("torch==2.9.1",))
    serve = Served(ServeDetails())
    deployed(serve, Catalog(1, MODELS, (A,)), WorkersSettings(ray=ray, worker_secret="s"))
    (app,) = serve.details.applications.values()
    assert app.deployed_app_config is not None
    assert app.deployed_app_config["runtime_env"]["uv"] == ["torch==2.9.1"]


def test_the_package_has_what_replicas_import() -> None:
    package = own_package()
    names = set(zipfile.ZipFile(io.BytesIO(package.content)).namelist())
    assert {"workers/deployments/engine_app.py", "routing/hardware/parts.toml"} <= names
    assert all(name.split("/")[0] in ("workers", "routing") for name in names)
