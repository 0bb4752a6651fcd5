"""A test that fails beside others runs once more, alone; what fails twice fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack_config import ROOT

MODULE = """
from pathlib import Path
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("case", ["of two words"])
def test_that_fails_at_first(case):
    seen = Path(__file__).with_suffix(".seen")
    is_first = not seen.exists()
    seen.touch()
    assert not is_first

@pytest.mark.xdist_group("one")
def test_that_always_fails():
    assert not {fails}
"""


OPTIONS = ("-ra", "-n", "1", "--dist", "loadgroup")


@pytest.mark.parametrize(("fails", "returncode"), [(False, 0), (True, 1)])
def test_only_what_passes_alone_lets_the_run_pass(
    tmp_path: Path, fails: bool, returncode: int
) -> None:
    (tmp_path / "test_twice.py").write_text(MODULE.format(fails=fails))
    run = subprocess.run(
        [ROOT / "tests" / "once_more.sh", sys.executable, "-m", "pytest", *OPTIONS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == returncode, run.stdout
    assert "FAILED test_twice.py::test_that_fails_at_first" in run.stdout
    assert ("passed only alone" in run.stdout) is not fails
    assert f"{1 + fails} that failed, once more" in run.stdout
