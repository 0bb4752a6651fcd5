"""The composition root of the edge: every part is made here once, wired, started and stopped."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from starlette.routing import Route
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from billing.limits.breaker import Breaker, BreakerSettings
from billing.limits.holds import Holds
from billing.spool import Spool
from billing.store.engine import Store, open_store
from billing.tasks import end
from gateway.accounts import Accounts
from gateway.admin.bootstrap import bootstrap
from gateway.api import (
    admin,
    count_tokens,
    credits,
    health,
    key,
    metrics,
    public,
    quote,
    tokens,
    usage,
)
from gateway.api.bounds import BodyBoundMiddleware
from gateway.api.edge import AsgiApp, EdgeApi
from gateway.api.errors import install_error_handlers
from gateway.api.generate import Generating
from gateway.api.identity import IdentityMiddleware
from gateway.api.parsers import doors
from gateway.auth import KeyDirectory
from gateway.budgets import Standings
from gateway.catalog import CatalogKeeper
from gateway.console import routes as console
from gateway.console.desk import make_desk
from gateway.credits import CreditLines
from gateway.end_users import EndUsers
from gateway.fleet import FleetKeeper
from gateway.idempotency.fate import Fates
from gateway.idempotency.once import Once
from gateway.idempotency.replaying import Replaying
from gateway.idempotency.tapes import Tapes, TapeSettings
from gateway.identity import id_maker
from gateway.leases import Leases, LeaseSettings
from gateway.metrics.lag import LoopLag
from gateway.metrics.observed import Observed
from gateway.outage import Outage, OutageSettings
from gateway.parts import Outside, Parts
from gateway.pipeline import Pipeline
from gateway.pressure import Pressure
from gateway.principals import StoredKeys
from gateway.recovery import Recovery
from gateway.revision import RevisionWatch
from gateway.settings import GatewaySettings, Settings
from gateway.store import TenantStore, open_engine
from gateway.tokens import Checkpoints, CheckpointTokens
from gateway.upstream.dispatch import Dispatcher
from gateway.upstream.http1 import Http1Client
from gateway.upstream.openai import OpenAIUpstream, Patience
from gateway.upstream.places import Places
from gateway.wire.reply import ReplySettings
from routing.policy import Policy
from routing.scorers import TierRule
from routing.types import Tier
from workers.queue import WaitingRoom

log = logging.getLogger(__name__)

REDIS_TIMEOUT_S = 1.0
"""For what no caller waits for: the fleet, the catalog, heartbeats."""
REDIS_CONNECTIONS_MAX = 64
"""Beside the one that all limits share."""
REDIS_CONNECTION_WAIT_S = 5.0


def create_app(settings: Settings, outside: Outside) -> FastAPI:
    """The ASGI application; its lifespan makes the parts, and ends them in reverse."""

    @asynccontextmanager
    async def lifespan(app: EdgeApi) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            parts = await make_parts(settings, outside, stack)
            app.state.parts = parts
            app.state.console = make_desk(parts)
            app.generating = _generating(parts)
            app.router.routes[:0] = [
                Route(path, methods=["POST"], endpoint=endpoint)
                for path, endpoint in app.generating.items()
            ]
            await _run_in_background(parts, stack)
            yield

    app = EdgeApi(lifespan=lifespan)
    new_id = id_maker(outside.clock, outside.rng)
    install_error_handlers(app, new_id, outside.clock)
    app.add_middleware(BodyBoundMiddleware, bytes_max=settings.gateway.body_bytes_max)
    app.add_middleware(IdentityMiddleware, new_id=new_id, clock=outside.clock)
    trusted = outside.environment.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
    app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=trusted)
    for router in (
        health.router,
        metrics.router,
        key.router,
        credits.router,
        quote.router,
        public.router,
        tokens.router,
        count_tokens.router,
        usage.router,
        admin.router,
        console.router,
    ):
        app.include_router(router)
    return app


async def make_parts(settings: Settings, outside: Outside, stack: AsyncExitStack) -> Parts:
    own = settings.gateway
    data = settings.data.absolute()
    engine = open_engine(settings.sql_url or f"sqlite:///{data / 'sluice.db'}")
    stack.callback(engine.dispose)
    tenants = TenantStore(engine)
    await asyncio.to_thread(bootstrap, tenants, settings, round(outside.clock() * 1e6))
    ledger = open_store(settings.sql_url or f"sqlite:///{data / 'sluice.db'}")
    redis = _redis(settings)
    stack.push_async_callback(redis.aclose)
    client = Http1Client(
        connect_timeout_s=own.connect_timeout_s,
        idle_timeout_s=own.idle_timeout_s,
        ca_file=own.external_ca_file,
    )
    stack.push_async_callback(client.aclose)
    kept_keys = StoredKeys(tenants)
    keys = KeyDirectory(kept_keys, outside.clock)
    checkpoints = Checkpoints(partial(CheckpointTokens, clock=outside.clock))
    watch = RevisionWatch(tenants, changed=keys.forget, poll_s=own.catalog_poll_s)
    catalog = CatalogKeeper(tenants, redis, checkpoints, watch=watch, poll_s=own.catalog_poll_s)
    fleet = FleetKeeper(redis, lambda: catalog.catalog, outside.clock, own.fleet_poll_s)
    gateway_id = f"gw-{own.port}"
    spool = await stack.enter_async_context(
        Spool(
            data / "spool",
            gateway_id,
            segment_bytes=own.spool_segment_bytes,
            fsync_interval_s=own.spool_fsync_ms / 1000,
        )
    )
    limiter = own.limiter
    breaker = Breaker(
        BreakerSettings(limiter.failures_max, limiter.open_s), outside.clock, _tell_of_outage
    )
    holds = Holds(redis, timeout_s=limiter.timeout_ms / 1000, breaker=breaker)
    outage = Outage(
        OutageSettings(
            share=limiter.local_share,
            buckets_max=limiter.local_buckets_max,
            spend_cap_nanousd=limiter.local_spend_cap_nanousd,
        ),
        clock=outside.clock,
        wait_s=lambda: breaker.wait_s,
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
    )
    lag = LoopLag(asyncio.get_running_loop().time)
    observed = Observed(lag, breaker, data / "spool", gateway_id)
    accounts = Accounts(
        holds=holds,
        spool=spool,
        leases=leases,
        outage=outage,
        credits=CreditLines(redis, own.catalog_poll_s),
        pressure=Pressure(redis, own.catalog_poll_s),
        gateway_id=gateway_id,
        calls_max=own.calls_max,
        clock=outside.clock,
        ended=observed.tally,
    )
    policy = standard_policy(own)
    places = Places(
        fleet=fleet,
        waiting_room=WaitingRoom(redis),
        worker_secret=settings.worker_secret or "",
        own_patience=Patience(own.first_token_timeout_s, own.idle_timeout_s),
        outside_patience=Patience(own.external_first_token_timeout_s, own.external_idle_timeout_s),
        environment=outside.environment,
        rng=outside.rng,
        clock=outside.clock,
    )
    dispatcher = Dispatcher(
        fleet=fleet,
        places=places,
        upstream=OpenAIUpstream(client),
        policy=policy,
        rng=outside.rng,
        clock=outside.clock,
    )
    pipeline = Pipeline(
        keys=keys,
        end_users=EndUsers(kept_keys),
        catalog=catalog,
        fleet=fleet,
        accounts=accounts,
        leases=leases,
        dispatcher=dispatcher,
        policy=policy,
        rng=outside.rng,
        clock=outside.clock,
    )
    recovery = Recovery(
        redis=redis,
        holds=holds,
        accounts=accounts,
        outage=outage,
        catalog=catalog,
        ledger=ledger,
        spool_root=data / "spool",
        gateway_id=gateway_id,
        clock=outside.clock,
    )
    return Parts(
        settings=settings,
        outside=outside,
        new_id=id_maker(outside.clock, outside.rng),
        tenants=tenants,
        ledger=ledger,
        redis=redis,
        keys=keys,
        revision=watch,
        catalog=catalog,
        fleet=fleet,
        accounts=accounts,
        standings=Standings(holds, ledger, outside.clock),
        places=places,
        pipeline=pipeline,
        recovery=recovery,
        once=_once(settings, redis, ledger, holds),
        observed=observed,
    )


def _once(settings: Settings, redis: Redis, ledger: Store, holds: Holds) -> Once:
    own = settings.gateway.idempotency
    kept = TapeSettings(
        ttl_s=own.ttl_s,
        answer_bytes_max=own.answer_bytes_max,
        organization_bytes_max=own.organization_bytes_max,
        lease_s=own.lease_s,
    )
    tapes = Tapes(redis, kept)
    fates = Fates(ledger, holds, wait_s=own.settle_wait_s)
    replaying = Replaying(tapes, fates, poll_s=own.poll_s, followers_max=own.followers_max)
    return Once(tapes, replaying, own.finish_within_s)


def _tell_of_outage(is_away: bool) -> None:
    if is_away:
        log.warning("redis is away: calls are denied or admitted locally, as declared")
    else:
        log.warning("redis is back")


def _redis(settings: Settings) -> Redis:
    """Bounded in time and connections: many who ask at once wait for one. Only a connection that
    broke while it was idle is replaced."""
    data = settings.data.absolute()
    return Redis.from_pool(
        BlockingConnectionPool.from_url(
            settings.redis_url or f"unix://{data / 'redis.sock'}",
            max_connections=REDIS_CONNECTIONS_MAX,
            timeout=REDIS_CONNECTION_WAIT_S,
            socket_connect_timeout=settings.gateway.limiter.connect_timeout_ms / 1000,
            socket_timeout=REDIS_TIMEOUT_S,
            retry=Retry(NoBackoff(), 1),
        )
    )


def standard_policy(own: GatewaySettings) -> Policy:
    """The policy a fresh gateway routes by, in nano-USD: priority buys time and safety, flex
    buys neither."""
    return Policy(
        revision=1,
        tiers={
            Tier.PRIORITY: TierRule(
                wait_nanousd_per_s=2_000_000,
                quality_nanousd_per_token=5_000,
                spot_risk_nanousd=1_000_000,
                deadline_s=own.deadline_priority_s,
            ),
            Tier.DEFAULT: TierRule(
                wait_nanousd_per_s=100_000,
                quality_nanousd_per_token=1_000,
                spot_risk_nanousd=20_000,
                deadline_s=own.deadline_default_s,
            ),
            Tier.FLEX: TierRule(
                wait_nanousd_per_s=2_000,
                quality_nanousd_per_token=50,
                spot_risk_nanousd=0,
                deadline_s=own.deadline_flex_s,
            ),
        },
    )


def _generating(parts: Parts) -> dict[str, AsgiApp]:
    """Raw ASGI, beside FastAPI: every event of every stream passes here."""
    own = parts.settings.gateway
    return {
        path: Generating(
            parts.pipeline,
            parse=door.parse,
            dialect=door.dialect,
            queue_note=parts.places.queue_note,
            reply_settings=ReplySettings(own.commit_after_s, own.keepalive_s),
            body_bytes_max=own.body_bytes_max,
            body_timeout_s=own.body_timeout_s,
            slow_reader_timeout_s=own.slow_reader_timeout_s,
            once=parts.once,
            clock=parts.outside.clock,
            new_id=lambda: parts.new_id("req"),
            told=parts.observed.tally.refuse,
        )
        for path, door in doors(parts.catalog).items()
    }


async def _run_in_background(parts: Parts, stack: AsyncExitStack) -> None:
    """First look at everything once, then keep looking until the lifespan ends."""
    accounts = parts.accounts
    looking = parts.catalog, parts.fleet, accounts.credits, accounts.pressure
    for keeper in looking:
        await keeper.refresh()
    keepers = parts.revision, *looking, accounts, parts.recovery, parts.observed.lag
    for run in [keeper.run for keeper in keepers]:
        task = asyncio.create_task(run(), name=run.__qualname__)
        task.add_done_callback(_report_end)
        stack.push_async_callback(end, task)


def _report_end(task: asyncio.Task[None]) -> None:
    """A keeper that ends by itself is a bug: without it the gateway goes stale, so end loudly."""
    if not task.cancelled() and (error := task.exception()):
        log.critical("%s ended, and with it the gateway", task.get_name(), exc_info=error)
        signal.raise_signal(signal.SIGTERM)
