"""One gateway process. The composition root reads clock and chance here."""

import gc
import logging
import os
import random
import resource
import socket
import sys
import time

import uvicorn

from gateway.app import create_app
from gateway.config_file import SettingsError
from gateway.parts import Outside
from gateway.server.heads import Heads
from gateway.server.listener import protocol
from gateway.settings import load_settings, settings_notices
from gateway.tenants.ids import id_maker

log = logging.getLogger(__name__)

FILES_BESIDE = 256
"""Open files that are no connection of a client or to a worker: database, Redis, spool."""
GC_THRESHOLDS = (50_000, 20, 20)


class _AnnouncedServer(uvicorn.Server):
    """Says `ready gateway` on standard output once it accepts connections."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _spare_the_collector()
            print(f"ready gateway http://{self.config.host}:{self.config.port}", flush=True)


def _spare_the_collector() -> None:
    """What is here by now stays for good, and a call leaves hardly a cycle behind: looking for
    garbage as often as Python does by itself costs a tenth of every call."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def _connections_max(connections_max: int) -> int:
    """As many as there may be files, of which every call may need another one. The soft limit is
    often 1024 and may be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2 * connections_max + FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= files:
        return connections_max
    fewer = max(1, (soft - FILES_BESIDE) // 2)
    log.warning("%d connections at most, of %d: no more files may be open", fewer, connections_max)
    return fewer


def main() -> int:
    try:
        settings = load_settings(now_us=round(time.time() * 1e6))  # noqa: TID251
    except SettingsError as wrong:
        print(f"sluice gateway: {wrong}", file=sys.stderr)
        return 2
    own = settings.gateway
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # keys of providers and tenants are in memory
    logging.basicConfig(
        level=own.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # What is wrong with a caller's form is the caller's to know, who is answered.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    for notice in settings_notices():
        log.warning("%s", notice)
    outside = Outside(
        clock=time.time,  # noqa: TID251
        rng=random.Random(os.urandom(16)),  # noqa: TID251
        entropy=os.urandom,  # noqa: TID251
        environment=os.environ,
    )
    new_id = id_maker(outside.clock, outside.rng)
    config = uvicorn.Config(
        create_app(settings, outside),
        host=own.host,
        port=own.port,
        loop="uvloop",
        http=protocol(
            write_buffer_bytes=own.write_buffer_bytes,
            unread_timeout_s=own.slow_reader_timeout_s,
            heads=Heads(
                bytes_max=own.head_bytes_max,
                timeout_s=own.head_timeout_s,
                new_id=lambda: new_id("req"),
                clock=outside.clock,
                connections_max=_connections_max(own.connections_max),
            ),
        ),
        ws="none",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        log_config=None,
        backlog=2048,
        timeout_graceful_shutdown=max(1, round(own.drain_s)),
    )
    server = _AnnouncedServer(config)
    server.run()
    return 0 if server.started else 1
