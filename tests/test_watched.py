"""Processes of a test run that is killed end with it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.watched import Watched

ROOT = Path(__file__).parents[1]
ENDED_WITHIN_S = 60.0
RUN = """
import os, subprocess, sys, threading
from tests.watched import Watched

kept = []
def start():
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    kept.append(Watched(sleeper.pid))
    print(sleeper.pid, flush=True)

thread = threading.Thread(target=start)
thread.start()
thread.join()
print("started", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""

FORKED = """
import os, sys, time
from tests.nursery import Part

for _ in range(2):
    print(Part(time.sleep, 600, env=os.environ).pid, flush=True)
print("started", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_test_run_started_ends_with_it_and_not_before() -> None:
    """Also what was started by a thread that has ended, and has left our session."""
    ends_with_its_run(RUN, 1)


def test_what_a_killed_test_run_forked_ends_with_it_and_not_before() -> None:
    ends_with_its_run(FORKED, 2)


def ends_with_its_run(program: str, processes: int) -> None:
    """The program prints so many pids and kills itself when it is told to."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None and run.stdin is not None
        pids = [int(run.stdout.readline()) for _ in range(processes)]
        assert run.stdout.readline() == "started\n"
        assert all(map(is_running, pids)), "its thread has ended, the run has not"
        run.stdin.write("\n")
        run.stdin.flush()
        run.wait(timeout=ENDED_WITHIN_S)
    deadline = time.monotonic() + ENDED_WITHIN_S
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "it outlives the test run"
        time.sleep(0.01)


def test_what_is_released_lives_on() -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        with Watched(sleeper.pid):
            pass
        with pytest.raises(subprocess.TimeoutExpired):
            sleeper.wait(timeout=0.2)
        sleeper.kill()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
