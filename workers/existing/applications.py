"""Our applications among those of others, on a cluster that is somebody else's. Pure.

Their names say whose they are. So several Sluices share a cluster, and each one finds its own again
after a kill.
"""

from typing import Any

import msgspec

from workers.existing.package import own_package
from workers.ray.app_names import OWN, owner_of, owner_of_secret
from workers.ray.serve_api import AppDetails, ServeDetails
from workers.ray.variables import replica_variables
from workers.settings import WorkersSettings


def code_env(settings: WorkersSettings) -> dict[str, Any]:
    """The runtime environment that has our code, and no secret."""
    packages = settings.ray.packages
    return {"working_dir": own_package().uri} | ({"uv": list(packages)} if packages else {})


def process_env(settings: WorkersSettings) -> dict[str, Any]:
    """That of a process of ours there."""
    return {**code_env(settings), "env_vars": replica_variables(settings)}


def app_env(settings: WorkersSettings) -> dict[str, Any]:
    """What an application on somebody else's cluster says more than one on our own, whose
    processes have all of it already."""
    return {} if settings.ray.address is None else {"runtime_env": process_env(settings)}


def owner(settings: WorkersSettings) -> str:
    if settings.ray.address is None:
        return OWN
    return owner_of_secret(settings.worker_secret.get_secret_value())


def own_details(details: ServeDetails, settings: WorkersSettings) -> ServeDetails:
    """The state of Serve with our applications alone."""
    us = owner(settings)
    ours = {name: app for name, app in details.applications.items() if owner_of(name) == us}
    if settings.ray.address is not None:
        ours = {name: _on_nodes_of_ray(app) for name, app in ours.items()}
    return msgspec.structs.replace(details, applications=ours)


def _on_nodes_of_ray(app: AppDetails) -> AppDetails:
    """The application with its replicas on nodes as Ray calls them. Their provider's names are not
    in the list of nodes (`workers.existing.nodes`)."""
    replaced = msgspec.structs.replace
    deployments = {
        name: replaced(
            deployment,
            replicas=tuple(
                replaced(replica, node_instance_id=replica.node_id)
                for replica in deployment.replicas
            ),
        )
        for name, deployment in app.deployments.items()
    }
    return replaced(app, deployments=deployments)
