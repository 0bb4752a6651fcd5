"""What a gateway consists of: the parts that `app.py` makes once and the routes are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from redis.asyncio import Redis

from billing.store.engine import Store
from gateway.accounts import Accounts
from gateway.auth import KeyDirectory
from gateway.budgets import Standings
from gateway.catalog import CatalogKeeper
from gateway.fleet import FleetKeeper
from gateway.idempotency.once import Once
from gateway.identity import NewId
from gateway.metrics.observed import Observed
from gateway.pipeline import Pipeline
from gateway.recovery import Recovery
from gateway.revision import RevisionWatch
from gateway.settings import Settings
from gateway.store import TenantStore
from gateway.upstream.places import Places
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class Outside:
    """What comes from outside the program: time, chance, entropy and the environment."""

    clock: Clock
    rng: Random
    entropy: Callable[[int], bytes]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything the routes need, made once."""

    settings: Settings
    outside: Outside
    new_id: NewId
    tenants: TenantStore
    ledger: Store
    redis: Redis
    keys: KeyDirectory
    revision: RevisionWatch
    catalog: CatalogKeeper
    fleet: FleetKeeper
    accounts: Accounts
    standings: Standings
    places: Places
    pipeline: Pipeline
    recovery: Recovery
    once: Once
    observed: Observed
