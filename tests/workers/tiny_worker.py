"""A worker with no model in it, for tests of the cluster: the real HTTP doors, and work that lasts
until a file exists.

A deployment by the same `build` contract as `workers.deployments.engine_app`. A model path that
ends in `broken` fails to start, until there is a folder of that name. One that is told of weights
answers with what it has of them.
"""

import asyncio
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from ray import serve


@serve.ingress()
class TinyWorker:
    def __init__(self, args: dict[str, Any]) -> None:
        path = Path(args["model_path"])
        if path.name == "broken" and not path.exists():
            raise RuntimeError("the checkpoint is broken")
        self._pool = args["pool"]
        self._weights = None
        if "weights" in args:
            from workers.deployments.engine_app import EngineAppArgs, weights_of_replica

            self._weights = weights_of_replica(EngineAppArgs.model_validate(args))

    def __serve_build_asgi_app__(self) -> Any:
        folder = self._weights and self._weights.folder
        return TinyServer(self._pool, os.environ["SLUICE_WORKER_SECRET"], folder)


class TinyServer:
    def __init__(self, pool: str, secret: str, weights: Path | None = None) -> None:
        self._weights = weights
        self._pool = pool
        self._secret = secret.encode()
        self._running = 0
        self._draining = False
        self._active_s = time.monotonic()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if dict(scope["headers"]).get(b"x-sluice-worker-secret") != self._secret:
            await _answer(send, 401, {"error": {"code": "unauthorized"}})
            return
        path = scope["path"].removeprefix(scope["root_path"])
        body = await _body(receive)
        if path == "/v1/sluice/stats":
            await _answer(send, 200, self._stats())
        elif path == "/v1/sluice/drain":
            self._draining = body["draining"]
            await _answer(send, 200, {"draining": self._draining})
        else:
            await self._work(send, body)

    def _stats(self) -> dict[str, Any]:
        idle_ms = 0.0 if self._running else (time.monotonic() - self._active_s) * 1000
        return {
            "running": self._running,
            "queued": 0,
            "draining": self._draining,
            "last_active_ms_ago": idle_ms,
        }

    async def _work(self, send: Any, body: Any) -> None:
        if self._draining:
            await _answer(send, 503, {"error": {"code": "worker_draining"}})
            return
        self._running += 1
        try:
            while not _may_end(body["until"]):  # noqa: ASYNC110 - another process makes the file
                await asyncio.sleep(0.02)
        finally:
            self._running -= 1
            self._active_s = time.monotonic()
        answer: dict[str, Any] = {"pool": self._pool, "pid": os.getpid()}
        if self._weights is not None:
            answer |= {"weights": str(self._weights), "files": _hashes(self._weights)}
        await _answer(send, 200, answer)


def _hashes(folder: Path) -> dict[str, str]:
    files = [path for path in folder.iterdir() if path.suffix != ".json" or path.stem == "config"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _may_end(until: str | None) -> bool:
    return until is None or Path(until).exists()


def build(args: dict[str, Any]) -> serve.Application:
    # Far above its slots, as in the product: Serve would otherwise queue our questions as well.
    deployment = serve.deployment(TinyWorker, name="engine", max_ongoing_requests=1_000)
    return deployment.bind(args)


async def _body(receive: Any) -> Any:
    content = b""
    while True:
        message = await receive()
        content += message.get("body", b"")
        if not message.get("more_body"):
            return json.loads(content or b"null")


async def _answer(send: Any, status: int, content: dict[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
