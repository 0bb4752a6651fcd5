"""`python -m workers.writer OPTIONS`: the writer of one cluster, as a process of it, over HTTP.

The head of a cluster of this machine starts it and starts it again. In any other cluster a job of
Ray runs it. It ends with the raylet that it is connected to. Every request carries the workers'
secret.
"""

import asyncio
import hmac
import logging
import os
import signal
import sys
from pathlib import Path

import msgspec
import ray
from aiohttp import web
from aiohttp.typedefs import Handler

from workers.ray.app_names import OWN
from workers.ray.serve_api import RayRefused, RayUnavailable
from workers.ray.variables import WORKER_SECRET
from workers.writer.ray_cluster import ServeCluster
from workers.writer.service import LeaderRefused, LeaderStore, Writer
from workers.writer.stores import LeaderFile, LeaderInRay
from workers.writer.writes import HIGHEST_PATH, READY, SECRET_HEADER, WRITES_PATH, Order

log = logging.getLogger(__name__)

JOB_ENVIRONMENT = "RAY_JOB_CONFIG_JSON_ENV_VAR"


class WriterOptions(msgspec.Struct, frozen=True):
    """`port` 0 is one that is free, and no `host` the address of the node. Serve listens at
    `proxy_host` and `proxy_port`. `leader_file`: None where the cluster's own store is to keep the
    leader of `owner`. `nodes`: the folder of this machine's nodes."""

    proxy_host: str
    proxy_port: int
    gcs_address: str = "auto"
    host: str = ""
    port: int = 0
    leader_file: str | None = None
    owner: str = OWN
    nodes: str | None = None


class WriterServer:
    """The writer over HTTP. The status says what came of an order: 204 done, 409 another leads, 422
    Ray refused it, 503 Ray is away."""

    def __init__(self, writer: Writer, secret: str) -> None:
        self._writer = writer
        self._secret = secret.encode()
        self.app = web.Application(middlewares=[self._guard])
        self.app.add_routes(
            [web.post(WRITES_PATH, self._write), web.get(HIGHEST_PATH, self._highest)]
        )

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        secret = request.headers.get(SECRET_HEADER, "").encode()
        if not hmac.compare_digest(secret, self._secret):
            return web.Response(status=401)
        return await handler(request)

    async def _highest(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(await self._writer.highest()))

    async def _write(self, request: web.Request) -> web.Response:
        try:
            order = msgspec.json.decode(await request.read(), type=Order)
        except msgspec.DecodeError as odd:
            return web.Response(status=400, text=str(odd))
        try:
            await self._writer.do(order)
        except LeaderRefused as refused:
            return web.Response(status=409, body=msgspec.json.encode(refused.highest))
        except RayRefused as refused:
            return web.Response(status=422, text=str(refused))
        except RayUnavailable as away:
            return web.Response(status=503, text=str(away))
        return web.Response(status=204)


async def serve(options: WriterOptions) -> None:
    """Run until SIGTERM. Says `ready writer URL` when it takes orders."""
    stopping = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    host = options.host or ray.util.get_node_ip_address()
    nodes = Path(options.nodes) if options.nodes else None
    cluster = ServeCluster(options.proxy_host, options.proxy_port, nodes)
    server = WriterServer(Writer(_store(options), cluster), os.environ[WORKER_SECRET])
    runner = web.AppRunner(server.app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, options.port)
    await site.start()
    port = runner.addresses[0][1]
    print(f"{READY}http://{host}:{port}", flush=True)
    starting = asyncio.create_task(_start_serve(cluster))
    await stopping.wait()
    starting.cancel()
    await runner.cleanup()


def _store(options: WriterOptions) -> LeaderStore:
    if options.leader_file is not None:
        return LeaderFile(Path(options.leader_file))
    return LeaderInRay(options.owner)


async def _start_serve(cluster: ServeCluster) -> None:
    """Serve takes seconds to start. The first order would have to wait for it."""
    try:
        await cluster.start()
    except Exception as wrong:
        log.warning("Serve did not start: %s", wrong)


def main() -> int:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    options = msgspec.json.decode(sys.argv[1], type=WriterOptions)
    # As a job it has an environment, which Serve would have for good if it is started here.
    os.environ.pop(JOB_ENVIRONMENT, None)
    ray.init(
        address=options.gcs_address,
        namespace="sluice",
        log_to_driver=False,
        configure_logging=False,
    )
    asyncio.run(serve(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
