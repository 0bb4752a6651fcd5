"""docs/clients.md says what the tests of clients say; nothing gets in that no test has shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.marks import ROOT, Mark, marks, version
from tests.clients.page import PAGE, page, row, unproven
from tests.clients.record import KEY, Passed

SUITE = """
import pytest
@pytest.mark.client("openai", "talks")
@pytest.mark.xdist_group("stack")
def test_talks(): pass

@pytest.mark.client("openai", "walks")
@pytest.mark.parametrize("leg", [1, 2])
def test_walks(leg): assert leg == 1

@pytest.mark.client("openai", "flies")
def test_flies(): pytest.skip("no wings")
"""
CONFTEST = """
from tests.clients.record import Record
def pytest_configure(config):
    config.addinivalue_line("markers", "client: of a client")
    config.pluginmanager.register(Record(config))
"""


def test_page_is_what_the_marks_say() -> None:
    assert PAGE.read_text() == page(), (
        "run the tests of clients, then: python -m tests.clients.page"
    )


def test_every_client_is_pinned_and_says_one_thing_once() -> None:
    found = marks()
    assert all(version(mark.client) for mark in found)
    said = [(mark.client, mark.does) for mark in found]
    assert len(said) == len(set(said))
    assert all("|" not in cell for mark in found for cell in mark)


def test_row_needs_a_run_of_its_version_or_stands_there() -> None:
    passed: Passed = {}
    for each in marks():
        passed.setdefault(each.test, {})[each.client] = version(each.client)
    assert unproven(passed, "") == []
    mark = marks()[0]
    for run in ({}, {mark.client: "0.0.1"}):
        assert mark in unproven(passed | {mark.test: run}, "")
        assert mark not in unproven(passed | {mark.test: run}, row(mark))


def test_marks_are_read_where_pytest_reads_them(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.client('b', 'does'))])\n"
        "def test_one(x): ...\n"
        "@pytest.mark.client('a', 'would', refused='it asks for more')\n"
        "async def test_two(): ...\n"
    )
    assert marks(tmp_path) == [
        Mark("a", "would", "it asks for more", "tests/test_it.py::test_two"),
        Mark("b", "does", "", "tests/test_it.py::test_one"),
    ]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_only_what_passed_with_every_parameter_is_recorded(tmp_path: Path, workers: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-n", workers, "-p", "no:schemathesis"]
    command += ["--dist", "loadgroup"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=120)
    assert ran.returncode == 1, ran.stderr
    assert json.loads((tmp_path / ".pytest_cache" / "v" / KEY).read_text()) == {
        "test_it.py::test_talks": {"openai": version("openai")},
        "test_it.py::test_walks": {},
        "test_it.py::test_flies": {},
    }
