"""Applications follow the catalog one by one, and a refusal of Ray is a failure of its pool."""

from tests.workers.published import make_model, make_pool
from workers.autoscaling.types import PoolView
from workers.catalog import Catalog
from workers.controller.applications import Applications
from workers.controller.intentions import Intentions, PoolApps
from workers.controller.sighting import Sighting
from workers.ray.serve_api import AppDetails, ServeDetails
from workers.ray.serve_apps import app_name
from workers.settings import WorkersSettings
from workers.writer.controller_writes import Outcome
from workers.writer.writes import DeleteApp, DeployApp, Write

SETTINGS = WorkersSettings()
CATALOG = Catalog(
    1,
    models=(make_model("m", "/models/m"),),
    pools=(make_pool("a", "m", initial_replicas=1), make_pool("b", "m", initial_replicas=1)),
)
POOLS = [PoolApps(pool, app_name(pool, CATALOG, SETTINGS)) for pool in CATALOG.own_pools]
A, B = [apps.desired for apps in POOLS]


class FakeWrites:
    """`refused`: applications that Ray does not take."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.names: list[str] = []

    async def do(self, write: Write) -> Outcome:
        assert isinstance(write, DeployApp | DeleteApp)
        name = write.app["name"] if isinstance(write, DeployApp) else write.name
        self.names.append(name)
        return Outcome(True, "no module named engines" if name in self.refused else "")


def applications(writes: FakeWrites) -> Applications:
    return Applications(SETTINGS, writes, Intentions(SETTINGS.controller))


async def test_nothing_is_written_when_all_are_there() -> None:
    writes = FakeWrites()
    there = ServeDetails({name: AppDetails(name, "RUNNING") for name in (A, B, "theirs")})
    assert not await applications(writes).follow(CATALOG, there, POOLS, done=())
    assert writes.names == []


async def test_a_refused_application_stops_no_other_and_says_why_until_it_is_taken() -> None:
    writes = FakeWrites(A)
    both = applications(writes)
    assert await both.follow(CATALOG, ServeDetails(), POOLS, done=())
    assert writes.names == [A, B]
    seen = {name: Sighting(PoolView(0, (), 0)) for name in (A, B)}
    failures = {name: sighting.view.failure for name, sighting in both.barred(seen).items()}
    assert failures == {A: "no module named engines", B: None}
    writes.refused = ()
    await both.follow(CATALOG, ServeDetails({B: AppDetails(B, "RUNNING")}), POOLS, done=())
    assert both.barred(seen)[A].view.failure is None


async def test_what_left_the_catalog_is_deleted_and_what_others_have_is_not() -> None:
    writes = FakeWrites()
    there = ServeDetails({name: AppDetails(name, "RUNNING") for name in (A, B, "theirs")})
    only_b = Catalog(1, models=CATALOG.models, pools=CATALOG.pools[1:])
    await applications(writes).follow(only_b, there, POOLS[1:], done=())
    assert writes.names == [A]
