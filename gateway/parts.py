"""What a gateway consists of: the parts that `app.py` makes once and the routes are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from redis.asyncio import Redis

from billing.db.engine import Store
from billing.documents.press import Press
from gateway.admin.wrong_keys import WrongKeys
from gateway.call.admission import Accounts
from gateway.call.prompt_tokens import PromptCounter
from gateway.call.recovery import Recovery
from gateway.catalog.catalog import CatalogKeeper
from gateway.catalog.fleet import FleetKeeper
from gateway.decisions.booked import BookedCalls
from gateway.decisions.reader import DecisionReader
from gateway.decisions.recorder import DecisionRecorder
from gateway.health.breakers import Breakers
from gateway.health.shared import SharedHealth
from gateway.idempotency.once import Once
from gateway.limits.budgets import Standings
from gateway.metrics.observer import Observer
from gateway.pipeline import Pipeline
from gateway.providers.keys import ProviderKeys
from gateway.replicas.placement import Placement
from gateway.replicas.shared_counts import SharedCounts
from gateway.settings import Settings
from gateway.speeds.arrivals import Arrivals
from gateway.speeds.learner import Learner
from gateway.speeds.store import SpeedStore
from gateway.tenants.auth import KeyDirectory
from gateway.tenants.ids import NewId
from gateway.tenants.revision import RevisionWatch
from gateway.tenants.store import TenantStore
from gateway.uploads.folder import UploadFolder
from gateway.upstream.mover import Mover
from gateway.upstream.openai import OpenAIUpstream
from gateway.upstream.places import Places
from gateway.versions.keeper import VersionKeeper
from routing.policy.rules import RoutingPolicy
from routing.quality.model import QualityModel
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
    decision_recorder: DecisionRecorder
    booked_calls: BookedCalls
    decision_reader: DecisionReader
    placement: Placement
    learner: Learner
    arrivals: Arrivals
    speeds: SpeedStore
    counts: SharedCounts
    policy_keeper: VersionKeeper[RoutingPolicy]
    quality_keeper: VersionKeeper[QualityModel | None]
    places: Places
    upstream: OpenAIUpstream
    mover: Mover
    pipeline: Pipeline
    recovery: Recovery
    once: Once
    observed: Observer
    wrong_keys: WrongKeys
    counting: PromptCounter
    breakers: Breakers
    provider_keys: ProviderKeys
    health: SharedHealth
    press: Press
    uploads: UploadFolder
