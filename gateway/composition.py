"""What a gateway is made of, room by room: stores, the catalogue, limits, calls, servers."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from billing.db.engine import Store, open_store
from billing.documents.press import Press
from billing.limits.breaker import Breaker, BreakerSettings
from billing.limits.holds import Holds
from billing.prices.versions import load_book
from billing.spool.spool import Spool
from gateway.admin.wrong_keys import WrongKeys
from gateway.call.admission import Accounts
from gateway.call.leases import Leases, LeaseSettings
from gateway.call.model_permits import ModelPermits
from gateway.call.outage import Outage, OutageSettings
from gateway.call.prompt_tokens import PromptCounter
from gateway.call.recovery import Recovery
from gateway.catalog.bootstrap import bootstrap
from gateway.catalog.catalog import CatalogKeeper
from gateway.catalog.fleet import FleetKeeper
from gateway.catalog.tokenizers import Checkpoints, CheckpointTokens
from gateway.decisions.booked import BookedCalls
from gateway.decisions.reader import DecisionReader
from gateway.decisions.recorder import DecisionRecorder
from gateway.decisions.seeds import Seeds
from gateway.decisions.versions import PolicyVersions
from gateway.health.breakers import Breakers
from gateway.health.shared import SharedHealth
from gateway.idempotency.fate import Fates
from gateway.idempotency.once import Once
from gateway.idempotency.replaying import Replaying
from gateway.idempotency.tapes import Tapes, TapeSettings
from gateway.limits.budgets import Standings
from gateway.limits.credits import CreditLines
from gateway.limits.end_users import EndUsers
from gateway.limits.pressure import Pressure
from gateway.metrics.lag import LoopLag
from gateway.metrics.observer import Observer
from gateway.parts import Outside, Parts
from gateway.pipeline import Pipeline
from gateway.policies.active import ActivePolicy
from gateway.policies.document import compiled
from gateway.policies.matching import Matching
from gateway.policies.shipped import SHIPPED_VERSION, follow_shipped, shipped_policy
from gateway.policies.tables import POLICIES
from gateway.providers.key import ProviderKey
from gateway.providers.key_files import KeyFiles
from gateway.providers.key_limits import KeyLimits
from gateway.providers.keys import ProviderKeys
from gateway.providers.link import ProvidersLink, providers_secret
from gateway.quality.active import ActiveQuality
from gateway.quality.tables import QUALITIES
from gateway.replicas.known_prompts import KnownPrompts
from gateway.replicas.placement import Placement
from gateway.replicas.shared_counts import SharedCounts
from gateway.server.own_id import own_id
from gateway.settings import GatewaySettings, Settings
from gateway.speeds.arrivals import Arrivals
from gateway.speeds.learner import Learner
from gateway.speeds.store import SpeedStore
from gateway.tenants.auth import KeyDirectory
from gateway.tenants.ids import id_maker
from gateway.tenants.principal import StoredKeys
from gateway.tenants.revision import RevisionWatch
from gateway.tenants.store import CONNECTIONS_MAX, TenantStore
from gateway.uploads.folder import UploadFolder
from gateway.upstream.dispatch import Dispatcher
from gateway.upstream.faults import Faults
from gateway.upstream.http1.client import Http1Client
from gateway.upstream.http1.tunnel import proxy_of
from gateway.upstream.mover import Mover
from gateway.upstream.openai import OpenAIUpstream, Patience
from gateway.upstream.places import Places
from gateway.versions.keeper import VersionKeeper
from gateway.versions.store import VersionStore
from routing.plans import Plans
from routing.quality.document import read
from routing.types import Pool, PoolState, Tier
from workers.controller.queue import WaitingRoom

log = logging.getLogger(__name__)

REDIS_TIMEOUT_S = 1.0
"""For what no caller waits for: the fleet, the catalog, heartbeats."""
REDIS_CONNECTIONS_MAX = 64
"""Beside the one that all limits share."""
REDIS_CONNECTION_WAIT_S = 5.0


class _Stores(NamedTuple):
    """`limits_redis` is for the limiter alone, which bounds its waits itself."""

    tenants: TenantStore
    ledger: Store
    redis: Redis
    limits_redis: Redis


class _Catalogue(NamedTuple):
    stored_keys: StoredKeys
    keys: KeyDirectory
    revision: RevisionWatch
    catalog: CatalogKeeper
    fleet: FleetKeeper
    provider_keys: ProviderKeys


class _Limiter(NamedTuple):
    breaker: Breaker
    holds: Holds
    outage: Outage


class _Servers(NamedTuple):
    places: Places
    upstream: OpenAIUpstream
    dispatcher: Dispatcher


async def make_parts(settings: Settings, outside: Outside, stack: AsyncExitStack) -> Parts:
    """Every part once; `stack` ends them in reverse. Raises OperationalError without a database."""
    own = settings.gateway
    spool_root = settings.data.absolute() / "spool"
    stores = await _stores(settings, outside, stack)
    placement = Placement(outside.rng)
    arrivals = Arrivals(stores.redis, outside.clock)
    learner = Learner(placement.counted, arrivals.of)
    breakers = Breakers(outside.clock)
    limiter = _limiter(own, outside, stores)
    catalogue = _catalogue(
        settings, outside, stores, learner, breakers, lambda: limiter.outage.gateways
    )
    gateway_id = await asyncio.to_thread(own_id, spool_root, own.port, outside.entropy)
    log.info("this gateway is %s", gateway_id)
    spool = await stack.enter_async_context(_spool(own, spool_root, gateway_id))
    uploads_path = settings.data.absolute() / "uploads" / gateway_id
    uploads = UploadFolder(uploads_path, own.uploads_bytes_max)
    await asyncio.to_thread(uploads.clear)
    holds, outage = limiter.holds, limiter.outage
    observed = Observer(
        LoopLag(asyncio.get_running_loop().time),
        limiter.breaker,
        spool_root,
        gateway_id,
        Faults(outside.clock),
    )
    leases = Leases(
        holds=holds,
        spool=spool,
        outage=outage,
        settings=LeaseSettings(
            slice_tokens=own.output_slice_tokens,
            lease_s=own.lease_s,
            renew_every_s=own.renew_s,
        ),
        clock=outside.clock,
        is_suspended=catalogue.revision.is_suspended,
    )
    accounts = Accounts(
        holds=holds,
        spool=spool,
        leases=leases,
        outage=outage,
        credits=CreditLines(stores.redis, own.catalog_poll_s),
        pressure=Pressure(stores.redis, own.catalog_poll_s),
        gateway_id=gateway_id,
        calls_max=own.calls_max,
        clock=outside.clock,
        on_end=observed.tally,
    )
    permits = ModelPermits(holds, outage, accounts.slots)
    standings = Standings(holds, stores.ledger, outside.clock)
    active_policy = ActivePolicy(shipped_policy())
    policy_keeper = VersionKeeper(
        *(POLICIES, stores.ledger, stores.redis),
        active=active_policy,
        load=lambda document, version: compiled(document, revision=version),
        first_version=SHIPPED_VERSION,
        gateway_id=gateway_id,
        poll_s=own.catalog_poll_s,
        clock=outside.clock,
    )
    active_quality = ActiveQuality(None)
    quality_keeper = VersionKeeper(
        *(QUALITIES, stores.ledger, stores.redis),
        active=active_quality,
        load=lambda document, version: read(document).model,
        first_version=0,
        gateway_id=gateway_id,
        poll_s=own.catalog_poll_s,
        clock=outside.clock,
    )
    plans = Plans()
    counts = SharedCounts(
        stores.redis,
        placement,
        catalogue.fleet,
        gateway_id=gateway_id,
        every_s=own.work_shared_s,
        clock=outside.clock,
    )
    known_prompts = KnownPrompts(placement, catalogue.fleet, outside.clock)
    servers = _servers(
        *(settings, outside, stores, catalogue, placement, known_prompts, learner),
        *(observed, leases, permits, plans, breakers, stack),
    )
    recorder = DecisionRecorder(stores.redis, gateway_id, outside.clock)
    counting = PromptCounter(own.free_requests_per_minute, outside.clock)
    pipeline = Pipeline(
        keys=catalogue.keys,
        end_users=EndUsers(catalogue.stored_keys),
        catalog=catalogue.catalog,
        counting=counting,
        fleet=catalogue.fleet,
        accounts=accounts,
        leases=leases,
        dispatcher=servers.dispatcher,
        arrivals=arrivals,
        known_prompts=known_prompts,
        learner=learner,
        quality=active_quality,
        matching=Matching(active_policy, catalogue.catalog, standings, outside.clock),
        deadlines_s={
            Tier.PRIORITY: own.deadline_priority_s,
            Tier.DEFAULT: own.deadline_default_s,
            Tier.FLEX: own.deadline_flex_s,
        },
        plans=plans,
        recorder=recorder,
        seeds=Seeds(outside.rng),
        clock=outside.clock,
    )
    once = _once(settings, outside, stores, holds)
    recovery = Recovery(
        redis=stores.redis,
        holds=holds,
        announce_runs=once.announce,
        accounts=accounts,
        outage=outage,
        catalog=catalogue.catalog,
        ledger=stores.ledger,
        spool_root=spool_root,
        gateway_id=gateway_id,
        clock=outside.clock,
    )
    press = Press(fonts=settings.documents.fonts)
    stack.push_async_callback(press.close)
    versions = PolicyVersions(VersionStore(stores.ledger, POLICIES))
    decisions = DecisionReader(stores.ledger, versions)
    return Parts(
        settings=settings,
        outside=outside,
        new_id=id_maker(outside.clock, outside.rng),
        tenants=stores.tenants,
        ledger=stores.ledger,
        redis=stores.redis,
        keys=catalogue.keys,
        revision=catalogue.revision,
        catalog=catalogue.catalog,
        fleet=catalogue.fleet,
        accounts=accounts,
        standings=standings,
        decision_recorder=recorder,
        decision_reader=decisions,
        booked_calls=BookedCalls(decisions, accounts, stores.ledger, outside.clock),
        placement=placement,
        learner=learner,
        arrivals=arrivals,
        speeds=SpeedStore(stores.redis, learner),
        counts=counts,
        policy_keeper=policy_keeper,
        quality_keeper=quality_keeper,
        places=servers.places,
        upstream=servers.upstream,
        mover=Mover(catalogue.fleet, servers.dispatcher.attempts, outside.clock),
        pipeline=pipeline,
        recovery=recovery,
        once=once,
        observed=observed,
        wrong_keys=WrongKeys(),
        counting=counting,
        breakers=breakers,
        provider_keys=catalogue.provider_keys,
        health=SharedHealth(stores.redis, breakers, lambda: catalogue.fleet.places, gateway_id),
        press=press,
        uploads=uploads,
    )


async def _stores(settings: Settings, outside: Outside, stack: AsyncExitStack) -> _Stores:
    rows = open_store(settings.sql, connections_max=CONNECTIONS_MAX)
    ledger = open_store(settings.sql)
    for store in (rows, ledger):
        stack.callback(store.close)
    tenants = TenantStore(rows)
    now_us = round(outside.clock() * 1e6)
    await asyncio.to_thread(bootstrap, tenants, settings, now_us)
    await asyncio.to_thread(follow_shipped, tenants, VersionStore(rows, POLICIES), now_us)
    redis, limits_redis = _redis(settings), _redis(settings, bounded=False)
    for client in (redis, limits_redis):
        stack.push_async_callback(client.aclose)
    return _Stores(tenants, ledger, redis, limits_redis)


def _catalogue(
    settings: Settings,
    outside: Outside,
    stores: _Stores,
    learner: Learner,
    breakers: Breakers,
    gateways: Callable[[], int],
) -> _Catalogue:
    own = settings.gateway
    stored_keys = StoredKeys(stores.tenants)
    keys = KeyDirectory(stored_keys, outside.clock)
    revision = RevisionWatch(stores.tenants, on_change=keys.forget, poll_s=own.catalog_poll_s)
    catalog = CatalogKeeper(
        stores.tenants,
        stores.redis,
        Checkpoints(partial(CheckpointTokens, clock=outside.clock)),
        watch=revision,
        load_prices=partial(load_book, stores.ledger),
        poll_s=own.catalog_poll_s,
        clock=outside.clock,
    )
    rules = own.external_rules

    def keys_of(pool: Pool) -> tuple[ProviderKey, ...]:
        return catalog.catalog.keys_of(pool)

    provider_keys = ProviderKeys(
        keys_of,
        rules,
        KeyFiles(settings.provider_keys, outside.environment, outside.clock),
        breakers,
        KeyLimits(outside.clock, gateways),
        outside.clock,
    )

    def seen(state: PoolState) -> PoolState:
        keys = [key.name for key in keys_of(state.pool)]
        return breakers.with_health(learner.learned(state), keys)

    fleet = FleetKeeper(
        stores.redis,
        lambda: catalog.catalog,
        provider_keys.why_unusable,
        outside.clock,
        own.fleet_poll_s,
        own.fleet_stale_s,
        seen,
    )
    return _Catalogue(stored_keys, keys, revision, catalog, fleet, provider_keys)


def _spool(own: GatewaySettings, root: Path, gateway_id: str) -> Spool:
    return Spool(
        root,
        gateway_id,
        segment_bytes=own.spool_segment_bytes,
        fsync_interval_s=own.spool_fsync_ms / 1000,
    )


def _limiter(own: GatewaySettings, outside: Outside, stores: _Stores) -> _Limiter:
    """Holds bound their waits themselves, in time they lived: their Redis has no bound of its
    own."""
    limiter = own.limiter
    breaker = Breaker(
        BreakerSettings(limiter.failures_max, limiter.open_s), outside.clock, _tell_of_outage
    )
    silence_s = limiter.failures_max * limiter.timeout_ms / 1000
    outage = Outage(
        OutageSettings(
            share=limiter.local_share,
            buckets_max=limiter.local_buckets_max,
            spend_cap_nanousd=limiter.local_spend_cap_nanousd,
        ),
        clock=outside.clock,
        wait_s=lambda: breaker.wait_s,
    )
    return _Limiter(
        breaker, Holds(stores.limits_redis, timeout_s=silence_s, breaker=breaker), outage
    )


def _servers(
    settings: Settings,
    outside: Outside,
    stores: _Stores,
    catalogue: _Catalogue,
    placement: Placement,
    known_prompts: KnownPrompts,
    learner: Learner,
    observed: Observer,
    leases: Leases,
    permits: ModelPermits,
    plans: Plans,
    breakers: Breakers,
    stack: AsyncExitStack,
) -> _Servers:
    """Our own workers and those outside, and the way to them."""
    own, fleet = settings.gateway, catalogue.fleet
    client = Http1Client(
        connect_timeout_s=own.connect_timeout_s,
        idle_timeout_s=own.idle_timeout_s,
        ca_file=own.external_ca_file,
        certificate_file=own.external_certificate_file,
        proxy=proxy_of(own.external_proxy),
    )
    stack.push_async_callback(client.aclose)
    places = Places(
        fleet=fleet,
        placement=placement,
        known_prompts=known_prompts,
        breakers=breakers,
        waiting_room=WaitingRoom(stores.redis),
        worker_secret=settings.worker_secret or "",
        own_patience=Patience(own.first_token_timeout_s, own.idle_timeout_s, own.connect_timeout_s),
        outside_patience=Patience(
            own.external_first_token_timeout_s,
            own.external_idle_timeout_s,
            own.connect_timeout_s,
        ),
        environment=catalogue.provider_keys.secrets,
        keys=catalogue.provider_keys,
        listed=lambda pool: catalogue.catalog.catalog.listed.get(pool, ()),
        adapters=ProvidersLink(
            settings.providers.base_url, providers_secret(settings.worker_secret or "")
        ),
        plans=plans,
        clock=outside.clock,
        tokens_of=catalogue.catalog.tokens_of,
    )
    upstream = OpenAIUpstream(client, outside.clock)
    dispatcher = Dispatcher(
        fleet=fleet,
        places=places,
        upstream=upstream,
        faults=observed.faults,
        leases=leases,
        permits=permits,
        learner=learner,
        plans=plans,
        breakers=breakers,
        clock=outside.clock,
        refuse_retry=observed.tally.refuse_retry,
    )
    return _Servers(places, upstream, dispatcher)


def _once(settings: Settings, outside: Outside, stores: _Stores, holds: Holds) -> Once:
    own = settings.gateway.idempotency
    tape_settings = TapeSettings(
        ttl_s=own.ttl_s,
        answer_bytes_max=own.answer_bytes_max,
        organization_bytes_max=own.organization_bytes_max,
        lease_s=own.lease_s,
    )
    tapes = Tapes(stores.redis, tape_settings)
    fates = Fates(
        stores.ledger, holds, wait_s=own.settle_wait_s, held_s=own.ttl_s, clock=outside.clock
    )
    replaying = Replaying(tapes, fates, poll_s=own.poll_s, followers_max=own.followers_max)
    return Once(tapes, replaying, fates, own.finish_within_s)


def _tell_of_outage(is_away: bool) -> None:
    if is_away:
        log.warning("redis is away: calls are denied or admitted locally, as declared")
    else:
        log.warning("redis is back")


def _redis(settings: Settings, *, bounded: bool = True) -> Redis:
    """Bounded in connections: many who ask at once wait for one. Bounded in time, unless who asks
    sees to that. Only a connection that broke while it was idle is replaced."""
    data = settings.data.absolute()
    connect_s = settings.gateway.limiter.connect_timeout_ms / 1000
    return Redis.from_pool(
        BlockingConnectionPool.from_url(
            settings.redis_url or f"unix://{data / 'redis.sock'}",
            max_connections=REDIS_CONNECTIONS_MAX,
            timeout=REDIS_CONNECTION_WAIT_S,
            socket_connect_timeout=connect_s if bounded else None,
            socket_timeout=REDIS_TIMEOUT_S if bounded else None,
            retry=Retry(NoBackoff(), 1),
            driver_info=None,  # redis-py reads its version off the disk for each connection
        )
    )
