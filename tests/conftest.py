"""The one real stack of a test run, and how Hypothesis works on machines of any speed.

Tests that use the stack run in one worker, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.stack import Stack

settings.register_profile(
    "sluice",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("sluice")

STACK_TIMEOUT_S = 240
"""Of one test, the start of the stack included."""


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    running = Stack().__enter__()
    yield running
    assert running.stop() == [], "stopping leaves no process behind"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One group for all tests of the stack: started once; what breaks it on purpose comes last."""
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("stack"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(STACK_TIMEOUT_S))
    items.sort(key=lambda item: "chaos" in item.path.parts)
