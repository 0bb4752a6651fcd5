"""The applications of Serve that follow the catalog: which are deployed now, and which later."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from workers.catalog import Catalog
from workers.controller.intentions import Intentions, PoolApps
from workers.controller.sighting import Sighting
from workers.ray.serve_api import ServeDetails
from workers.ray.serve_apps import app_changes
from workers.settings import WorkersSettings
from workers.writer.controller_writes import Outcome
from workers.writer.writes import DeleteApp, DeployApp, Write

SETTLED = ("RUNNING", "DEPLOY_FAILED", "UNHEALTHY")
"""Of an application of Serve: nothing of it is being started for the first time."""


class Writes(Protocol):
    """`ControllerWrites`, or less."""

    async def do(self, write: Write) -> Outcome: ...


class Applications:
    """Remembers what Ray refused to deploy. It is tried again when replicas of it are to run."""

    def __init__(self, settings: WorkersSettings, writes: Writes, intentions: Intentions) -> None:
        self._settings = settings
        self._writes = writes
        self._intentions = intentions
        self._refused: dict[str, str] = {}

    async def follow(
        self,
        catalog: Catalog,
        details: ServeDetails,
        pools: Sequence[PoolApps],
        *,
        done: Collection[str],
        holders: Callable[[str], Collection[str]] = lambda id: (),
    ) -> bool:
        """Deploy what is missing and delete what is done, each by itself. Returns whether there was
        anything to do."""
        for apps in pools:
            if apps.desired not in details.applications:
                self._intentions.note_unknown(apps)
        self._refused = {
            name: why for name, why in self._refused.items() if name in {p.desired for p in pools}
        }
        later = self._later(details, pools)
        changes = app_changes(
            catalog, details, self._settings, done=done, later=later, holders=holders
        )
        for app in changes.deploy:
            outcome = await self._writes.do(DeployApp(app))
            self._refused.pop(app["name"], None)
            if outcome.refusal:
                self._refused[app["name"]] = outcome.refusal
        for name in changes.delete:
            await self._writes.do(DeleteApp(name))
        return changes.deploy != () or changes.delete != ()

    def barred(self, sightings: Mapping[str, Sighting]) -> dict[str, Sighting]:
        """The sightings, with why an application cannot start where Ray refused it."""
        return {
            name: _failed(sighting, self._refused[name]) if name in self._refused else sighting
            for name, sighting in sightings.items()
        }

    def _later(self, details: ServeDetails, pools: Sequence[PoolApps]) -> set[str]:
        """New applications that are not deployed yet. A new application costs the machine a start
        even where no replica is to run. So those wait until the applications that are to run do.
        Where the cluster grows it would bring a node, too. There the first application of a pool
        waits until a replica is to run."""
        there = details.applications
        names = [apps.desired for apps in pools if self._intentions.needs_app(apps.desired)]
        new = [apps for apps in pools if apps.desired not in there and apps.desired not in names]
        refused = {apps.desired for apps in new if apps.desired in self._refused}
        if all(name in there and there[name].status in SETTLED for name in names):
            return refused | {
                apps.desired for apps in new if self._settings.grows and not apps.older
            }
        return {apps.desired for apps in new}


def _failed(sighting: Sighting, why: str) -> Sighting:
    return replace(sighting, view=replace(sighting.view, failure=why))
