"""One private cluster for the file that needs one; started at its first use."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.redis_fixtures import redis, redis_server
from tests.workers.cluster import Cluster, Gateway

__all__ = ["redis", "redis_server"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        cluster = Cluster(Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            left = cluster.stop()
        assert not left, f"processes left behind: {left}"


@pytest.fixture
async def gateway(cluster: Cluster) -> AsyncIterator[Gateway]:
    async with Gateway(cluster) as gateway:
        yield gateway


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Measured times are told, not asserted."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {name} {value:.2f}")
