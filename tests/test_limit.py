"""A run past its limit ends with a word on why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack_config import ROOT

ENDLESS = """
import threading

def test_that_ends():
    pass

def test_without_end():
    threading.Event().wait()
"""

LAST = "test_endless.py::test_without_end"


@pytest.mark.parametrize("workers", ["0", "1"])
def test_run_that_is_ended_names_the_tests_that_ran(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "tests.limit", "-n", workers, "-v"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with run:
        assert run.stdout is not None
        began = ""
        while LAST not in began:  # the process that is ended has told that it runs
            read = run.stdout.read(1)
            assert read, began
            began += read
        run.send_signal(signal.SIGTERM)
        said = began + run.communicate(timeout=60)[0]
    assert run.returncode == 124, said
    assert f"1 tests had ended. Running:\n  {LAST}" in said
