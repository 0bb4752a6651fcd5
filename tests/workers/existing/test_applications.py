"""Applications of others, of other Sluices among them, are never taken for ours."""

import io
import zipfile

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.published import make_model, make_pool
from tests.workers.ray.test_serve_apps import FakeServe
from workers.catalog import Catalog
from workers.existing.applications import own_details
from workers.existing.package import own_package
from workers.ray.serve_api import AppDetails, ServeDetails
from workers.ray.serve_apps import app_changes, app_name, older_apps
from workers.settings import RaySettings, WorkersSettings

ADDRESS = RaySettings(address="http://10.0.0.1:8265")
OURS = WorkersSettings(ray=ADDRESS, worker_secret="ours")
THEIRS = WorkersSettings(ray=ADDRESS, worker_secret="theirs")
A = make_pool("a", "m")
MODELS = (make_model("m", path="/models/m"),)
POOLS = st.sets(st.sampled_from("abc")).map(
    lambda names: Catalog(1, MODELS, tuple(make_pool(name, "m") for name in sorted(names)))
)
FOREIGN = {name: AppDetails(name, "RUNNING") for name in ("chat", "pool-a", "pool-a.1")}


def follow(serve: FakeServe, catalog: Catalog, settings: WorkersSettings) -> None:
    """One round of a Sluice."""
    serve.follow(app_changes(catalog, own_details(serve.details, settings), settings))


def names_of(catalog: Catalog, settings: WorkersSettings) -> set[str]:
    return {app_name(pool, catalog, settings) for pool in catalog.own_pools}


def running(serve: FakeServe) -> set[str]:
    apps = serve.details.applications.items()
    return {name for name, app in apps if app.status != "DELETING"}


@given(first=POOLS, second=POOLS, last=POOLS)
def test_two_sluices_and_others_share_a_cluster(
    first: Catalog, second: Catalog, last: Catalog
) -> None:
    serve = FakeServe(ServeDetails(applications=dict(FOREIGN)))
    for settings, catalog in ((OURS, first), (THEIRS, second), (OURS, last)):
        follow(serve, catalog, settings)
    ours, theirs = names_of(last, OURS), names_of(second, THEIRS)
    assert running(serve) == ours | theirs | set(FOREIGN)
    mine = own_details(serve.details, OURS).applications
    assert {name for name, app in mine.items() if app.status != "DELETING"} == ours


def test_an_application_of_others_is_no_older_one_of_a_pool() -> None:
    theirs = app_changes(Catalog(1, MODELS, (A,)), ServeDetails(), THEIRS).deploy[0]["name"]
    foreign = FOREIGN | {theirs: AppDetails(theirs, "RUNNING")}
    details = own_details(ServeDetails(applications=foreign), OURS)
    assert older_apps(A, "pool-a.01234567", details) == ()


def test_an_app_brings_its_code_and_nothing_of_this_machine() -> None:
    [app] = app_changes(Catalog(1, MODELS, (A,)), ServeDetails(), OURS).deploy
    assert app["runtime_env"]["working_dir"] == own_package().uri
    assert app["runtime_env"]["env_vars"]["SLUICE_WORKER_SECRET"] == "ours"
    assert "runtime_env" not in app["deployments"][0]["ray_actor_options"]


def test_packages_are_installed_by_ray_where_the_settings_name_some() -> None:
    ray = RaySettings(address="http://10.0.0.1:8265", packages=("torch==2.9.1",))
    settings = WorkersSettings(ray=ray, worker_secret="s")
    [app] = app_changes(Catalog(1, MODELS, (A,)), ServeDetails(), settings).deploy
    assert app["runtime_env"]["uv"] == ["torch==2.9.1"]


def test_the_package_has_what_replicas_import() -> None:
    package = own_package()
    names = set(zipfile.ZipFile(io.BytesIO(package.content)).namelist())
    assert {"workers/deployments/engine_app.py", "routing/hardware/parts.toml"} <= names
    assert all(name.split("/")[0] in ("workers", "routing") for name in names)
