"""Whoever works in bulk asks the kernel for long turns, and keeps all else as it was."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading

import pytest

from billing import tuning
from billing.tuning import ATTRIBUTES, TURN_S, take_long_turns

READ = {"x86_64": 315, "aarch64": 275}
NICE = 3
RESULT_S = 30.0

KNOWN_FROM = (6, 12)
"""Before it the kernel takes the wish and keeps no turn of an ordinary task."""


def attributes() -> tuple[int, ...]:
    """sched_attr of the thread that asks."""
    room = ctypes.create_string_buffer(ATTRIBUTES.size)
    number = READ[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, 0, room, ATTRIBUTES.size, 0) == 0
    return ATTRIBUTES.unpack(room.raw)


def in_a_thread() -> tuple[int, ...]:
    found: list[tuple[int, ...]] = []
    thread = threading.Thread(target=lambda: found.append(attributes()))
    thread.start()
    thread.join(RESULT_S)
    return found[0]


def nice_and_turns() -> None:
    """What a process of its own prints: nothing is asked of the one that tests."""
    os.nice(NICE)
    print(*attributes()[:5])
    print(take_long_turns())
    for found in (attributes(), in_a_thread()):
        print(*found[:5])
        print(found[5])


def test_long_turns_are_those_of_every_thread_started_later_and_change_nothing_else() -> None:
    told = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import nice_and_turns; nice_and_turns()"],
        capture_output=True,
        text=True,
        timeout=RESULT_S,
        check=True,
    )
    before, took, *after = told.stdout.splitlines()
    assert int(before.split()[3]) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
    assert took == "True"
    is_known = tuple(map(int, platform.release().split(".")[:2])) >= KNOWN_FROM
    assert after == [before, str(round(TURN_S * 1e9) if is_known else 0)] * 2


def test_a_machine_whose_calls_have_other_numbers_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "SYSTEM_CALLS", {})
    assert not take_long_turns()
