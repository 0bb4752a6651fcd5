"""A session is ended whole, and never somebody else's."""

import subprocess
import sys
import time

from workers.ray.session import Session, end_session, members, session_of

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0)
print("up", flush=True)
time.sleep(60)
"""


def start() -> subprocess.Popen[bytes]:
    leader = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=True
    )
    assert leader.stdout is not None
    leader.stdout.readline()
    return leader


def test_all_processes_end_even_those_that_ignore_being_asked() -> None:
    leader = start()
    session = session_of(leader.pid)
    assert len(members(session)) == 2
    assert end_session(session, grace_s=0.2) == 2
    leader.wait(timeout=60)
    assert members(session) == []


def test_children_are_found_after_their_leader_was_killed() -> None:
    leader = start()
    session = session_of(leader.pid)
    leader.kill()
    leader.wait()
    assert len(members(session)) == 1
    assert end_session(session, grace_s=1.0) == 1


def test_a_number_given_to_somebody_else_is_left_alone() -> None:
    leader = start()
    ours = session_of(leader.pid)
    try:
        earlier = Session(ours.sid, ours.started_s - 3600)
        assert members(earlier) == []
        assert end_session(earlier, grace_s=0.1) == 0
        time.sleep(0.1)
        assert leader.poll() is None
    finally:
        end_session(ours, grace_s=0.1)
        leader.wait(timeout=60)
