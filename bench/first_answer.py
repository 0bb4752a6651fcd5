"""From the declaration of a provider's pool to the first answer of it.

    python -m bench.first_answer

A gateway, a ledger and a database as `sluice up` starts them, without workers and without a pool.
One pool is put, and its model asked every half second until it answers: once of a server that
speaks OpenAI's API, and once of one with an adapter, whose process starts for it.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.providers.fakes import fake_provider
from tests.providers.test_supervised import USED, running
from tests.redis_server import RedisServer
from tests.stack_process import OUTSIDE_KEY_VARIABLE

POOLS: dict[str, dict[str, Any]] = {
    "azure": {"upstream_model": "gpt-4o"},
    "anthropic": {"adapter": "litellm", "upstream_model": "anthropic/claude-haiku-4-5"},
}


def main() -> None:
    print(json.dumps({kind: asyncio.run(first_answer_s(kind)) for kind in POOLS}))


async def first_answer_s(kind: str) -> float:
    with tempfile.TemporaryDirectory(prefix="sl-") as folder, RedisServer(Path(folder)) as server:
        data = Path(folder) / "data"
        data.mkdir()
        async with fake_provider(kind, USED) as fake, running(server, data) as few:
            began_s = time.monotonic()
            pool = {"model": "story", "capacity_class": "external", "base_url": fake.url}
            await few.put(
                "/pools/story", pool | POOLS[kind] | {"api_key_env": OUTSIDE_KEY_VARIABLE}
            )
            await few.answer()
            return round(time.monotonic() - began_s, 1)


if __name__ == "__main__":
    main()
