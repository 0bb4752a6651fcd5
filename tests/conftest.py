"""The one real stack of a test run, and how Hypothesis works: the same examples in each run on a
machine of any speed, new ones in `make test-all`, and none made smaller by `make mutants`.

Tests that use the stack run in one worker, one after the other, before all others: it ends with the
last of them, for a stack at rest takes a third of a core.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests import limit, statements
from tests.clients.record import Record
from tests.stack import Stack

settings.register_profile(
    "sluice",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=True,
)
settings.register_profile("explore", settings.get_profile("sluice"), derandomize=False)
settings.register_profile(
    "first-failure", settings.get_profile("sluice"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("sluice")

STACK_TIMEOUT_S = 480
"""Of one test, the start of the stack included."""


RUNNING = pytest.StashKey[Stack]()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Record(config))
    config.pluginmanager.register(limit)
    config.pluginmanager.register(statements)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The modules and tests of a run live as long as it does: the collector need not look at them,
    neither while they are made nor in each of its rounds afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """A command that runs in this process passes its options on as variables, which end with the
    test."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def stack(pytestconfig: pytest.Config) -> Iterator[Stack]:
    running = pytestconfig.stash[RUNNING] = Stack().__enter__()
    yield running
    end_stack(pytestconfig)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if nextitem is not None and not uses_stack(nextitem):
        end_stack(item.config)


def end_stack(config: pytest.Config) -> None:
    """If it runs."""
    running = config.stash.get(RUNNING, None)
    if running is not None:
        del config.stash[RUNNING]
        assert running.stop() == [], "stopping leaves no process behind"


def uses_stack(item: pytest.Item) -> bool:
    return "stack" in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One group for all tests of the stack: started once; what breaks it on purpose comes last.
    Of the others those that may take longest begin first, lest a worker has one alone in the
    end."""
    for item in items:
        if uses_stack(item):
            item.add_marker(pytest.mark.xdist_group("stack"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(STACK_TIMEOUT_S))
    usual_s = float(config.getini("timeout"))
    items.sort(key=lambda item: place(item, usual_s))


def place(item: pytest.Item, usual_s: float) -> tuple[bool, bool, float]:
    """Of a test among all: the smallest first."""
    if uses_stack(item):
        return False, "chaos" in item.path.parts, 0.0
    timeout = item.get_closest_marker("timeout")
    longest_s = usual_s if timeout is None else float(timeout.args[0])
    return True, False, -max(longest_s, usual_s)
