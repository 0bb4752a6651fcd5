"""What came of the tests of other people's clients, kept in pytest's cache: `page` makes the table
of it. A test whose parameters are several has passed where all of them have."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.clients.marks import version

KEY = "clients/record"
Passed = dict[str, dict[str, str]]
"""For each test the clients that it ran, in their versions."""


class Record:
    """A plugin; under xdist the workers say which clients a test is of, and one process writes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ran: dict[str, dict[str, str]] = {}
        self._failed = set[str]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for mark in item.iter_markers("client"):
            client = mark.args[0]
            item.user_properties.append(("client", (client, version(client))))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        clients: Any = dict(value for name, value in report.user_properties if name == "client")
        if not clients:
            return
        test = re.split(r"[\[@]", report.nodeid)[0]  # xdist adds the group: "@stack"
        if not report.passed:
            self._failed.add(test)
        self._ran.setdefault(test, {}).update(clients)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workerinput") or not self._ran:
            return
        cache = self._config.cache
        assert cache is not None
        known: Passed = cache.get(KEY, {})
        for test, clients in self._ran.items():
            known[test] = {} if test in self._failed else clients
        cache.set(KEY, known)
