"""`sluice up`: everything on one machine, in the foreground, until Ctrl-C.

The composition root of the supervisor: reads the clock and entropy, checks what must hold, ends
what a killed run left, and hands the parts to a Supervisor.
"""

import asyncio
import json
import os
import secrets  # noqa: TID251
import shlex
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path

from redis.asyncio import Redis

from gateway.catalog.external import LITELLM
from gateway.config_file import SettingsError, find_config
from gateway.settings import ModelSettings, Settings, load_settings, settings_notices
from gateway.supervisor.checks import (
    check_engine,
    check_memory,
    check_models,
    check_port,
    check_vllm,
    free_memory_bytes,
    memory_needed_mb,
)
from gateway.supervisor.credentials import keep_credentials
from gateway.supervisor.errors import CannotStart
from gateway.supervisor.leftovers import Record, end_leftovers
from gateway.supervisor.lock import locked
from gateway.supervisor.opening import (
    blocked_pools,
    served_models,
    wait_for_adapters,
    warm_pools,
)
from gateway.supervisor.part import PartSpec
from gateway.supervisor.plan import environment, parts
from gateway.supervisor.ready_file import Ready, ReadyFile
from gateway.supervisor.redis_server import redis_part
from gateway.supervisor.supervisor import Bounds, Supervisor
from workers.ray.session import Session

MODELS_EVERY_S = 2.0
ADAPTERS_EVERY_S = 3.0
"""How often it is looked whether a pool has come that needs the adapters of providers."""
LATE_EVERY_S = 1.0
"""How often what a full disk did not take is written again."""
Prepared = tuple[Sequence[PartSpec], Callable[[], Awaitable[Ready]]]
Prepare = Callable[[Settings, Path], Prepared]


def up(prepare: Prepare | None = None) -> int:
    """Run until stopped; 0 after Ctrl-C or SIGTERM, 1 with one line if it cannot start.

    `prepare` names the parts and how to know that all is open; without it, the real ones.
    """
    try:
        settings = load_settings(now_us=time.time_ns() // 1000)  # noqa: TID251
        for notice in settings_notices():
            say(f"notice: {notice}")
        run(settings, settings.data.absolute(), prepare or _prepare)
    except (CannotStart, SettingsError) as reason:
        say(f"cannot start: {reason}")
        return 1
    return 0


def run(settings: Settings, data: Path, prepare: Prepare) -> None:
    """Supervise what `prepare` names, as the only one on this data folder."""
    check_engine(settings.engine)
    check_models(settings.models)
    check_vllm(settings)
    check_memory(free_memory_bytes(), memory_needed_mb(settings))
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        (data / "logs").mkdir(exist_ok=True)
    except OSError as refused:
        raise CannotStart(f"{data}: {refused.strerror}") from refused
    with locked(data):
        ready_file = ReadyFile(data, say)  # what a killed run announced is not true any more
        for name in end_leftovers(data):
            say(f"{name}: ended what an earlier run left")
        check_port(settings.gateway.host, settings.gateway.port)
        specs, open_up = prepare(settings, data)
        try:
            asyncio.run(_supervise(settings, data, specs, open_up, ready_file))
        finally:
            end_leftovers(data)  # a part that had to be killed may have left a session of its own
            Record(data, say).remove()


async def _supervise(
    settings: Settings,
    data: Path,
    specs: Sequence[PartSpec],
    open_up: Callable[[], Awaitable[Ready]],
    ready_file: ReadyFile,
) -> None:
    started_s = time.monotonic()  # noqa: TID251
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    ending = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup means to outlive its terminal
        ending.append(signal.SIGHUP)
    for number in ending:
        loop.add_signal_handler(number, _begin_stop, stop, ready_file)

    record = Record(data, say)

    def follow(running: Mapping[str, Session]) -> None:
        record.write(running)
        ready_file.follow({name: session.sid for name, session in running.items()})

    async def announce() -> None:
        ready = await open_up()
        ready_file.announce(ready)
        say(f"ready in {time.monotonic() - started_s:.1f} s: {ready.base_url}")  # noqa: TID251
        say(f"console: {ready.console_url}, which asks for the admin_key of ready.json")
        say(f"keys and addresses: {data / 'ready.json'}; Ctrl-C stops everything")
        with suppress(OSError):
            print(f"\n{curl_line(ready)}\n", flush=True)
        await _follow_models(ready, settings, ready_file)

    supervisor = Supervisor(
        specs,
        data / "logs",
        bounds=_bounds(settings),
        say=say,
        on_change=follow,
        now=time.monotonic,  # noqa: TID251
    )
    retrying = asyncio.create_task(_write_late(record, ready_file))
    try:
        await supervisor.run(announce, stop)
    finally:
        retrying.cancel()
        ready_file.withdraw()


async def _write_late(*files: Record | ReadyFile) -> None:
    while True:
        await asyncio.sleep(LATE_EVERY_S)
        for file in files:
            file.retry()


async def _follow_models(ready: Ready, settings: Settings, ready_file: ReadyFile) -> None:
    """Models come and go while everything runs; a gateway that is away offers what it offered."""
    while True:
        await asyncio.sleep(MODELS_EVERY_S)
        with suppress(CannotStart, HTTPException):
            models = await served_models(ready.base_url, ready.api_key, attempts=1)
            ready_file.offer(generating_first(models, settings.models))


def _begin_stop(stop: asyncio.Event, ready_file: ReadyFile) -> None:
    if not stop.is_set():
        say("stopping")
        ready_file.withdraw()
        stop.set()


def _bounds(settings: Settings) -> Bounds:
    fields = settings.supervisor.model_dump(exclude={"memory_min_mb", "pools_timeout_s"})
    return Bounds(**fields)


def _prepare(settings: Settings, data: Path) -> Prepared:
    """The real parts, and how to know that a tenant can call."""
    credentials = keep_credentials(data, lambda: secrets.token_hex(24))
    if settings.redis_url:
        redis_spec, redis_url = None, settings.redis_url
    else:
        redis_spec, redis_url = redis_part(data)
    if settings.ray.address is not None:  # the token of a cluster that is somebody else's
        token = os.environ.get("RAY_AUTH_TOKEN", credentials.ray_auth_token)
        credentials = replace(credentials, ray_auth_token=token)
    variables = environment(settings, find_config(None), data, redis_url, credentials)

    base_url = f"http://{_reachable(settings.gateway.host)}:{settings.gateway.port}"

    async def providers_wanted() -> None:
        if not any(pool.adapter == LITELLM for pool in settings.pools):
            await wait_for_adapters(base_url, credentials.admin_key, ADAPTERS_EVERY_S)

    async def open_up() -> Ready:
        redis = Redis.from_url(redis_url)
        try:
            await _warm(settings, redis)
        finally:
            await redis.aclose()
        for line in await blocked_pools(base_url, credentials.admin_key):
            say(line)
        return Ready(
            base_url=base_url,
            console_url=f"{base_url}/console",
            admin_key=credentials.admin_key,
            api_key=credentials.api_key,
            models=generating_first(
                await served_models(base_url, credentials.api_key), settings.models
            ),
        )

    memory_bytes = settings.providers.memory_mb << 20
    return parts(variables, redis_spec, providers_wanted, memory_bytes), open_up


async def _warm(settings: Settings, redis: Redis) -> None:
    mixed = {name for mix in settings.mixes for name in mix.pools}
    names = [
        pool.name
        for pool in settings.pools
        if pool.capacity_class != "external"
        and (pool.min_replicas or (pool.initial_replicas and pool.name not in mixed))
    ]
    cold = await warm_pools(
        redis,
        names,
        timeout_s=settings.supervisor.pools_timeout_s,
        say=say,
        now=time.monotonic,  # noqa: TID251
    )
    for name in cold:
        say(f"pool {name}: still not warm, going on without it (see logs/controller.log)")


def generating_first(names: Sequence[str], models: Sequence[ModelSettings]) -> list[str]:
    """In their order otherwise: the example call names the first, and chats with it."""
    embedding = {model.name for model in models if model.task == "embed"}
    return sorted(names, key=lambda name: name in embedding)


def curl_line(ready: Ready) -> str:
    """Ready to paste: a real key, a real model."""
    body = {
        "model": ready.models[0] if ready.models else "auto",
        "messages": [{"role": "user", "content": "Tell me a story about a fox."}],
    }
    return (
        f"curl -sS {ready.base_url}/v1/chat/completions"
        f" -H {shlex.quote(f'authorization: Bearer {ready.api_key}')}"
        f" -H 'content-type: application/json' -d {shlex.quote(json.dumps(body))}"
    )


def say(line: str) -> None:
    """One line to the user; a terminal that is gone, or a full disk behind it, must not end the
    parts."""
    with suppress(OSError):
        print(f"sluice: {line}", flush=True)


def _reachable(host: str) -> str:
    """An address to connect to, for one that may mean "every interface"."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
