"""The one real stack of a test run. Tests that use it run in one worker, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stack import Stack

STACK_TIMEOUT_S = 240
"""Of one test, the start of the stack included."""


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One group for all tests of the stack: started once; what breaks it on purpose comes last."""
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("stack"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(STACK_TIMEOUT_S))
    items.sort(key=lambda item: "chaos" in item.path.parts)
