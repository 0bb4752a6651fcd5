"""A run that is ended from outside, as `make test` ends one past TEST_LIMIT_S, says so, and which
tests it was at. What had failed until then is told as ever."""

from __future__ import annotations

import signal

import pytest


class Limit:
    """Knows the tests that run now, in whichever worker. Of the process that tells of all."""

    def __init__(self) -> None:
        self._running: dict[str, None] = {}
        self._ended = 0

    def pytest_configure(self) -> None:
        signal.signal(signal.SIGTERM, self._end)

    @pytest.hookimpl(tryfirst=True)  # before the terminal says that the test runs
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = None

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._ended += 1

    def _end(self, *_: object) -> None:
        running = "".join(f"\n  {name}" for name in self._running) or " none"
        why = "ended by SIGTERM, which `make test` sends after TEST_LIMIT_S seconds"
        pytest.exit(f"{why}: {self._ended} tests had ended. Running:{running}", returncode=124)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Limit())
