"""The stack that all journeys share."""

from __future__ import annotations

import pytest

from tests.stack import Stack


@pytest.mark.usefixtures("stack")
def test_all_users_of_the_stack_run_in_one_worker(request: pytest.FixtureRequest) -> None:
    """Else every worker would start a stack of its own, and a small machine would not hold it."""
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@stack")


def test_parts_are_where_ready_json_says(stack: Stack) -> None:
    running = {process.pid for process in stack.processes()}
    assert stack.pids().keys() == {"redis", "workers", "ledger", "controller", "gateway"}
    assert set(stack.pids().values()) <= running
    assert stack.ready["models"] and stack.ready["base_url"] == stack.base_url
