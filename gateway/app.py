"""The composition root of the edge: the ASGI application, whose parts start and stop with it."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from fastapi import FastAPI
from sqlalchemy.exc import OperationalError as DatabaseAway
from starlette.routing import Route
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from billing.tasks import end
from gateway.admin import router as admin
from gateway.admin.authentication import AdminKeyMiddleware
from gateway.api.error_handlers import install_error_handlers
from gateway.catalog.weights import routes as weights
from gateway.composition import make_parts
from gateway.console import routes as console
from gateway.console.context import make_context
from gateway.parts import Outside, Parts
from gateway.public import count_tokens, health, metrics, tokenize
from gateway.public import docs as docs_page
from gateway.public.charges import routes as charges
from gateway.public.credits import routes as credits
from gateway.public.generations import routes as generations
from gateway.public.invoices import routes as own_invoices
from gateway.public.key import routes as key
from gateway.public.models import routes as models
from gateway.public.payments import routes as payments
from gateway.public.quote import routes as quote
from gateway.public.receipts import routes as receipts
from gateway.public.statements import routes as statements
from gateway.public.usage import routes as usage
from gateway.server.app import AsgiApp, EdgeApi
from gateway.server.endpoint import Generating, Parse, Uploads
from gateway.server.middleware import BodyBoundMiddleware, IdentityMiddleware, WaitingMiddleware
from gateway.server.routes import call_routes, form_routes
from gateway.settings import Settings
from gateway.tenants.ids import id_maker
from gateway.wire.dialect import OPENAI, Dialect
from gateway.wire.reply import ReplySettings

log = logging.getLogger(__name__)

OPEN_AGAIN_S = 1.0
"""Between two looks whether a database is back that was away when the gateway started."""

ROUTERS = (
    *(health.router, docs_page.router, metrics.router),
    *(key.router, credits.router, quote.router, models.router, generations.router),
    *(tokenize.router, count_tokens.router, usage.router, own_invoices.router),
    *(charges.router, payments.router, statements.router, receipts.router),
    *(admin.router, console.router, weights.router),
)
ROUTES = tuple(route for router in ROUTERS for route in router.routes)
"""As their routers made them: to include a router makes FastAPI read the signatures of its handlers
once more in every application."""


def create_app(settings: Settings, outside: Outside) -> FastAPI:
    """The ASGI application; its lifespan makes the parts, and ends them in reverse. Where the
    database is away it serves all the same, says so, and makes them once it is back."""

    @asynccontextmanager
    async def lifespan(app: EdgeApi) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await _open(app, settings, outside, stack)
            except DatabaseAway as away:
                log.error("the database is away, and waited for: %s", away.orig)
                app.state.waits_for = "database"
                opening = asyncio.create_task(_open_later(app, settings, outside, stack))
                opening.add_done_callback(_report_end)
                stack.push_async_callback(end, opening)
            yield

    app = EdgeApi(lifespan=lifespan)
    new_id = id_maker(outside.clock, outside.rng)
    install_error_handlers(app, new_id, outside.clock)
    own = settings.gateway
    app.add_middleware(AdminKeyMiddleware)
    app.add_middleware(WaitingMiddleware, clock=outside.clock)
    app.add_middleware(
        BodyBoundMiddleware, bytes_max=own.body_bytes_max, timeout_s=own.body_timeout_s
    )
    app.add_middleware(IdentityMiddleware, new_id=new_id, clock=outside.clock)
    if own.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=[*own.trusted_proxies])
    app.router.routes.extend(ROUTES)
    return app


async def _open(app: EdgeApi, settings: Settings, outside: Outside, stack: AsyncExitStack) -> None:
    """Make the parts and set them to work. Raises OperationalError, with nothing left of them."""
    async with AsyncExitStack() as made:
        parts = await make_parts(settings, outside, made)
        await _run_in_background(parts, made)
        stack.push_async_exit(made.pop_all())
    app.state.parts = parts
    app.state.console = make_context(parts)
    app.generating = _generating(parts)
    app.router.routes[:0] = [
        Route(path, methods=["POST"], endpoint=endpoint)
        for path, endpoint in app.generating.items()
    ]


async def _open_later(
    app: EdgeApi, settings: Settings, outside: Outside, stack: AsyncExitStack
) -> None:
    while app.state.waits_for is not None:
        await asyncio.sleep(OPEN_AGAIN_S)
        with suppress(DatabaseAway):
            await _open(app, settings, outside, stack)
            app.state.waits_for = None
    log.warning("the database is back")


def _generating(parts: Parts) -> dict[str, AsgiApp]:
    """Raw ASGI, beside FastAPI: every event of every stream passes here."""
    own = parts.settings.gateway
    readers: dict[str, tuple[Parse | Uploads, Dialect]] = {
        path: (door.parse, door.dialect) for path, door in call_routes(parts.catalog).items()
    }
    readers |= {
        path: (Uploads(parts.uploads, each.rules, each.parse, own.upload_timeout_s), OPENAI)
        for path, each in form_routes(parts.catalog).items()
    }
    return {
        path: Generating(
            parts.pipeline,
            parse=parse,
            dialect=dialect,
            queue_note=parts.places.queue_note,
            reply_settings=ReplySettings(own.commit_after_s, own.keepalive_s),
            body_bytes_max=own.body_bytes_max,
            body_timeout_s=own.body_timeout_s,
            slow_reader_timeout_s=own.slow_reader_timeout_s,
            once=parts.once,
            clock=parts.outside.clock,
            new_id=lambda: parts.new_id("req"),
            note=parts.observed.tally.refuse,
        )
        for path, (parse, dialect) in readers.items()
    }


async def _run_in_background(parts: Parts, stack: AsyncExitStack) -> None:
    """First look at everything once, then keep looking until the lifespan ends."""
    accounts = parts.accounts
    looking = (
        *(parts.catalog, parts.fleet, parts.policy_keeper, parts.quality_keeper),
        *(accounts.credits, accounts.pressure),
    )
    await parts.speeds.refresh()
    await parts.arrivals.refresh()
    for keeper in looking:
        await keeper.refresh()
    stack.push_async_callback(parts.decision_recorder.close)
    beside = (
        *(parts.once, parts.recovery, parts.counts, parts.speeds, parts.observed.lag),
        *(parts.decision_recorder, parts.arrivals, parts.mover, parts.health),
    )
    keepers = parts.revision, *looking, accounts, *beside
    for run in [keeper.run for keeper in keepers]:
        task = asyncio.create_task(run(), name=run.__qualname__)
        task.add_done_callback(_report_end)
        stack.push_async_callback(end, task)


def _report_end(task: asyncio.Task[None]) -> None:
    """A keeper that ends by itself is a bug: without it the gateway goes stale, so end loudly."""
    if not task.cancelled() and (error := task.exception()):
        log.critical("%s ended, and with it the gateway", task.get_name(), exc_info=error)
        signal.raise_signal(signal.SIGTERM)
