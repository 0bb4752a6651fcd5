"""The `sluice` command in this process, over a gateway of this process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli import main


@dataclass(frozen=True)
class Sluice:
    """A data folder whose ready.json names a gateway; every command is asked of that one."""

    data: Path

    async def __call__(self, *words: str) -> str:
        """What a command that succeeds prints."""
        done = await self.run(*words)
        assert done.exit_code == 0, done.output
        return done.stdout

    async def json(self, *words: str) -> Any:
        return json.loads(await self(*words, "--json"))

    async def quiet(self, *words: str) -> str:
        return (await self(*words, "--quiet")).strip()

    async def refused(self, *words: str, status: int = 1) -> str:
        """What a command that fails says; it prints nothing."""
        done = await self.run(*words)
        assert (done.exit_code, done.stdout) == (status, ""), done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.stderr.strip()

    async def run(self, *words: str) -> Result:
        where = () if "--url" in words else ("--data", str(self.data))
        return await asyncio.to_thread(CliRunner().invoke, main, [*words, *where])


def ready(data: Path, base_url: str, admin_key: str = "admin") -> Sluice:
    data.mkdir(exist_ok=True)
    told = {"base_url": base_url, "admin_key": admin_key}
    (data / "ready.json").write_text(json.dumps(told))
    return Sluice(data)
