"""All processes of one Ray cluster, found by their session id, and ended together.

Every process that `ray start` brings up keeps the session of its leader, whatever becomes of its
parents. A session is named by its leader's pid and start time. So a pid that the system gave to
another process later is never mistaken for ours.
"""

import os
import signal
import time
from contextlib import suppress

import msgspec
import psutil

_START_TIME_SLACK_S = 2.0


class Session(msgspec.Struct, frozen=True):
    """One session. The leader's pid is its id. `started_s` is the leader's start in epoch time,
    from the system."""

    sid: int
    started_s: float


def session_of(leader_pid: int) -> Session:
    return Session(sid=leader_pid, started_s=psutil.Process(leader_pid).create_time())


def has_leader(session: Session) -> bool:
    """Whether the process that names the session still runs."""
    with suppress(psutil.Error):
        leader = psutil.Process(session.sid)
        return _is_leader(leader, session) and leader.status() != psutil.STATUS_ZOMBIE
    return False


def members(session: Session) -> list[psutil.Process]:
    """The processes of the session that still run. Zombies are dead already."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) != session.sid:
                continue
            if process.pid == session.sid and not _is_leader(process, session):
                return []  # the number belongs to a new session now
            if process.create_time() < session.started_s - _START_TIME_SLACK_S:
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def end_session(session: Session, *, grace_s: float) -> int:
    """Send SIGTERM to all, and SIGKILL after `grace_s` to those that are left. Returns how many
    there were."""
    count = len(members(session))
    _signal_all(session, signal.SIGTERM)
    if _wait_gone(session, timeout_s=grace_s):
        return count
    # Twice: a process that is starting another one may be between the two.
    for _ in range(5):
        _signal_all(session, signal.SIGKILL)
        if _wait_gone(session, timeout_s=1.0):
            break
    return count


def reap_children(*, but: int | None = None) -> None:
    """Collect every child that has ended, adopted ones included. `but` is one that another part
    waits for."""
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == but:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def _is_leader(process: psutil.Process, session: Session) -> bool:
    return abs(process.create_time() - session.started_s) < _START_TIME_SLACK_S


def _signal_all(session: Session, signum: signal.Signals) -> None:
    for process in members(session):
        with suppress(psutil.Error):
            process.send_signal(signum)


def _wait_gone(session: Session, *, timeout_s: float) -> bool:
    step_s = 0.1
    for _ in range(max(1, round(timeout_s / step_s))):
        if not members(session):
            return True
        time.sleep(step_s)
    return not members(session)
