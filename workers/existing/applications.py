"""Our applications among those of others, on a cluster that is somebody else's. Pure.

An application is ours where its replicas have our worker secret. So several Sluices share a
cluster, and each one finds its own again after a kill.
"""

from typing import Any

import msgspec

from workers.existing.package import own_package
from workers.ray.serve_api import AppDetails, ServeDetails
from workers.ray.variables import WORKER_SECRET, replica_variables
from workers.settings import WorkersSettings


def code_env(settings: WorkersSettings) -> dict[str, Any]:
    """The runtime environment that has our code, and no secret."""
    packages = settings.ray.packages
    return {"working_dir": own_package().uri} | ({"uv": list(packages)} if packages else {})


def app_env(settings: WorkersSettings) -> dict[str, Any]:
    """What an application on somebody else's cluster says more than one on our own, whose
    processes have all of it already."""
    if settings.ray.address is None:
        return {}
    return {"runtime_env": {**code_env(settings), "env_vars": replica_variables(settings)}}


def is_ours(app: AppDetails, settings: WorkersSettings) -> bool:
    if settings.ray.address is None:
        return True
    runtime_env = (app.deployed_app_config or {}).get("runtime_env") or {}
    secret = (runtime_env.get("env_vars") or {}).get(WORKER_SECRET)
    return bool(secret == settings.worker_secret.get_secret_value())


def own_details(details: ServeDetails, settings: WorkersSettings) -> ServeDetails:
    """The state of Serve with our applications. `foreign` has the documents of the others that a
    document deployed, because Serve takes away whatever the next document lacks."""
    ours = {name: app for name, app in details.applications.items() if is_ours(app, settings)}
    foreign = tuple(
        app.deployed_app_config
        for name, app in details.applications.items()
        if name not in ours and app.deployed_app_config is not None and app.status != "DELETING"
    )
    return msgspec.structs.replace(details, applications=ours, foreign=foreign)


def document_without_ours(details: ServeDetails) -> dict[str, Any] | None:
    """The document that takes away our applications and no others; None where none is left."""
    if not any(app.status != "DELETING" for app in details.applications.values()):
        return None
    return {"applications": list(details.foreign)}
