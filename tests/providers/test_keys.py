"""Keys of an account whose pool has an adapter, in a variable and in files: which one a call goes
with, rotation, and that none is anywhere but at the provider."""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis

from tests.gateway.api.asgi import ask
from tests.gateway.edge import FAR, Edge, body, edge
from tests.providers.conftest import KEYS, running_providers
from tests.providers.fakes import FakeProvider, fake_provider
from tests.providers.test_behind_a_gateway import POOL, USED, WHOLE, listens_at
from tests.redis_server import RedisServer

PLAIN, FILE = "SLUICE_PROVIDER_KEY_PLAIN", "SLUICE_PROVIDER_KEY_FILE"
FIRST, SECOND = "sk-of-a-file-0123456789", "sk-of-a-file-9876543210"


async def admin(one: Edge, method: str, path: str, sent: Any = None) -> Any:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, f"/admin/v1{path}", raw, "admin")
    assert status == 200, answer
    return answer


def used(fake: FakeProvider) -> list[str]:
    return [headers["x-api-key"] for headers in fake.headers]


async def test_keys_of_variables_and_files_are_used_and_rotate_and_stand_nowhere(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    folder, data = tmp_path / "keys", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (folder / FILE).write_text(f"{FIRST}\n")
    keys = {"keys": [{"name": PLAIN}, {"name": FILE}]}
    with running_providers(SLUICE_PROVIDERS_KEYS_FOLDER=str(folder)) as providers:
        listens_at(monkeypatch, providers)
        async with (
            fake_provider("anthropic", USED) as fake,
            edge(
                *(redis_server, redis, data),
                outer=fake.url,
                outer_pool=POOL | {"model": FAR, "provider": "acme"},
                gateway={"provider_keys_folder": str(folder)},
            ) as one,
        ):
            answers = [await admin(one, "PUT", "/providers/acme", keys)]
            told = b""
            for _ in range(2):
                told += (await one.post(body(model=FAR))).body
            assert sorted(used(fake)) == sorted([KEYS[PLAIN], FIRST])
            (folder / FILE).write_text(SECOND)
            for _ in range(2):
                told += (await one.post(body(model=FAR, **WHOLE))).body
            assert sorted(used(fake)[2:]) == sorted([KEYS[PLAIN], SECOND])
            for status in (401, 500):
                fake.status = status
                for _ in range(2):
                    told += (await one.post(body(model=FAR))).body
            for path in ("/providers", "/fleet", "/pools", "/models"):
                answers.append(await admin(one, "GET", path))
            answers.append(await admin(one, "POST", "/providers/acme/check", {"key": FILE}))
            calls = await one.settled()
            process = psutil.Process(providers.process.pid)
            kept = [await redis.dump(key) for key in await redis.keys("*")]
            everywhere = {
                "sql": "\n".join(sqlite3.connect(data / "sluice.db").iterdump()),
                "files": b"".join(f.read_bytes() for f in data.rglob("*") if f.is_file()),
                "redis": b"".join(each or b"" for each in kept),
                "answers": json.dumps(answers) + told.decode(),
                "records": repr(calls),
                "log of the gateway": caplog.text,
                "argv": " ".join(process.cmdline()),
            }
            environment = process.environ()
            assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0), "no core has a key"
    everywhere["log of the adapters"] = "".join(providers.lines)
    for where, said in everywhere.items():
        for secret in (KEYS[PLAIN], FIRST, SECOND):
            found = secret.encode() in said if isinstance(said, bytes) else secret in said
            assert not found, where
    assert not {FIRST, SECOND} & set(environment.values()), "what is in a file is in no variable"
