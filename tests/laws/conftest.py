from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_server import RedisServer


@pytest.fixture(scope="session")
def law_server() -> Iterator[RedisServer]:
    """A real Redis for all examples of all laws; each example empties it first."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder), appendfsync="no") as server,
    ):
        yield server


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all examples: Hypothesis calls tests synchronously."""
    with asyncio.Runner() as one:
        yield one
