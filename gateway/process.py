"""One gateway process. The composition root reads clock and chance here."""

import gc
import logging
import os
import random
import socket
import sys
import time

import uvicorn

from gateway.app import create_app
from gateway.heads import Heads
from gateway.identity import id_maker
from gateway.listener import protocol
from gateway.parts import Outside
from gateway.settings import SettingsError, load_settings

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


def main() -> int:
    try:
        settings = load_settings()
    except SettingsError as wrong:
        print(f"sluice gateway: {wrong}", file=sys.stderr)
        return 2
    own = settings.gateway
    logging.basicConfig(
        level=own.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
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
