"""Which parts `sluice up` runs, with which arguments and variables, and what each one needs.

Decides only: starting is the supervisor's. Parts get their settings by environment, so that a
part started by hand with the same variables is the same part.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from gateway.settings import Settings
from gateway.supervisor.credentials import Credentials
from gateway.supervisor.part import PartSpec


def parts(
    environment: Mapping[str, str],
    redis: PartSpec | None,
    providers_wanted: Callable[[], Awaitable[None]],
    providers_memory_bytes: int | None = None,
) -> list[PartSpec]:
    """Redis (unless it is somebody else's), the schema, the four parts of Sluice, and the adapters
    of providers as soon as they are wanted."""
    stores = (redis.name, "migrate") if redis else ("migrate",)
    own = [
        _part(
            "migrate", "gateway.cli", "migrate", doing="bringing the database up to date", once=True
        ),
        _part("workers", "workers.ray.launch", doing="starting Ray"),
        _part("ledger", "billing", needs=stores, doing="priming the counters from the ledger"),
        _part("controller", "workers.controller", needs=("workers", *stores)),
        _part("gateway", "gateway", needs=stores),
        replace(
            _part("providers", "gateway.cli", "providers", doing="starting the adapters"),
            wanted=providers_wanted,
            memory_bytes_max=providers_memory_bytes,
        ),
    ]
    own = [replace(spec, env=environment) for spec in own]
    return [redis, *own] if redis else own


def environment(
    settings: Settings, config: Path, data: Path, redis_url: str, credentials: Credentials
) -> dict[str, str]:
    """What every part is told; a variable the user set for one setting stays as it is."""
    variables = {
        "SLUICE_CONFIG": str(config),
        "SLUICE_DATA": str(data),
        "SLUICE_REDIS_URL": redis_url,
        "SLUICE_SQL_URL": settings.sql,
        "SLUICE_ENGINE": settings.engine,
        "SLUICE_GATEWAY__HOST": settings.gateway.host,
        "SLUICE_GATEWAY__PORT": str(settings.gateway.port),
        "PYTHONUNBUFFERED": "1",
    }
    return variables | credentials.environment


def _part(
    name: str,
    module: str,
    *arguments: str,
    needs: tuple[str, ...] = (),
    doing: str = "starting",
    once: bool = False,
) -> PartSpec:
    return PartSpec(
        name=name,
        argv=(sys.executable, "-m", module, *arguments),
        ready=rf"^ready {name}\b",
        needs=needs,
        doing=doing,
        once=once,
    )
