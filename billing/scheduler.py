"""What the ledger process asks of the kernel's scheduler: long turns, given up at once to others.

Booking comes in bursts of ten milliseconds of work that nobody waits for. Beside it, on the same
cores, run the parts that a caller does wait for, each awake for a fraction of a millisecond. Asked
for a longer turn, a process keeps its whole share of the core, but whoever wakes and wants a
shorter one goes before it (Linux 6.12: `sched_runtime` of ordinary tasks, sched_setattr(2)).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

TURN_S = 0.02
SYSTEM_CALLS = {"x86_64": 314, "aarch64": 274}
"""The number of sched_setattr; glibc has a name for it only since 2.41."""
ATTRIBUTES = struct.Struct("IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority; runtime, deadline and period in ns."""


def take_long_turns(turn_s: float = TURN_S, thread: int = 0) -> bool:
    """Ask for turns of so many seconds, for a thread (by default the one that asks) and all that it
    starts from now on.

    False where the kernel does not know it or forbids it; then all stays as it was. A kernel
    before 6.12 answers True and goes on as before.
    """
    number = SYSTEM_CALLS.get(platform.machine())
    if number is None or not hasattr(os, "sched_getscheduler"):
        return False
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    runtime_ns = round(turn_s * 1e9)
    attributes = ATTRIBUTES.pack(
        ATTRIBUTES.size, os.sched_getscheduler(thread), 0, nice, 0, runtime_ns, 0, 0
    )
    return bool(ctypes.CDLL(None).syscall(number, thread, attributes, 0) == 0)
