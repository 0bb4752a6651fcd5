"""A gateway that starts while its database is away serves, says why it takes no call, and takes
calls once the database is back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from time import time
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import make_url

from gateway import app as root
from gateway.app import create_app
from gateway.parts import Outside
from gateway.settings import ModelSettings, Settings
from migrations.run import migrate
from tests.gateway.api.asgi import answer
from tests.gateway.api.described import assert_described
from tests.postgres_fixtures import Databases, postgres
from tests.redis_server import RedisServer

__all__ = ["postgres"]

MODEL = ModelSettings(name="tale", context_tokens=99, max_output_tokens=9, size_rank=1, quality=0.5)


async def get(app: Any, path: str, method: str = "GET") -> tuple[int, Any, dict[str, str]]:
    found = await answer(app, method, path, headers={"authorization": "Bearer admin"})
    return found.status, found.json, found.headers


async def test_gateway_that_starts_before_its_database_waits_for_it(
    postgres: Databases,
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It exited, and was started again and again."""
    monkeypatch.setattr(root, "OPEN_AGAIN_S", 0.05)
    with postgres.copy_of("template0") as url:
        migrate(url)
        folder = tmp_path / "pg"
        here = make_url(url).update_query_dict({"host": str(folder)})
        settings = Settings(
            data=tmp_path,
            sql_url=here.render_as_string(hide_password=False),
            redis_url=redis_server.url,
            admin_key="admin",
            models=(MODEL,),
        )
        app: Any = create_app(settings, Outside(time, Random(1), Random(2).randbytes, {}))
        async with app.router.lifespan_context(app):
            for _ in range(3):
                assert (await get(app, "/livez"))[0] == 200
                status, told, _ = await get(app, "/readyz")
                assert (status, told["checks"]) == (503, {"database": False})
                assert_described(app, "GET", "/readyz", status, told)
                for method, path in (("POST", "/v1/chat/completions"), ("GET", "/admin/v1/keys")):
                    status, told, headers = await get(app, path, method)
                    assert (status, headers["retry-after"]) == (503, "1")
                    assert told["error"]["message"] == "The gateway waits for its database."
                await asyncio.sleep(0.1)
            folder.symlink_to(postgres.server.socket_folder)
            async with asyncio.timeout(120):
                while (await get(app, "/admin/v1/models"))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            _, models, _ = await get(app, "/admin/v1/models")
            assert [row["name"] for row in models["data"]] == ["tale"]
            _, told, _ = await get(app, "/readyz")
            assert "database" not in told["checks"]
            assert (await get(app, "/v1/chat/completions", "POST"))[0] == 401
