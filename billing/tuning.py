"""How the ledger process shares its cores with the parts that callers wait for.

Garbage: Booking a batch makes tens of thousands of rows that live until its commit and hold no
cycle. With Python's own settings the collector walks them again and again. That is a quarter of the
writer's CPU.

Threads: One thread waits for SQL while another makes the next batch ready. With Python's own
setting the thread that has its answer waits five milliseconds for its turn. That happens at each of
the thirty answers of a batch, and the database waits with it.

Scheduler: Booking comes in bursts of ten milliseconds of work that nobody waits for. Beside it, on
the same cores, run the parts that a caller does wait for, each awake for a fraction of a
millisecond. A process that asks for longer turns keeps its whole share of the core. A process that
wakes and wants a shorter turn goes before it (Linux 6.12: `sched_runtime` of ordinary tasks,
sched_setattr(2)).
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import struct
import sys

NEW_OBJECTS = 100_000
"""Between two looks at the youngest: about the rows of two batches."""
YOUNG_LOOKS, MIDDLE_LOOKS = 50, 100


def collect_less() -> None:
    """Let the garbage collector run less often, for a process that books. It never looks again at
    objects that exist by now."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, YOUNG_LOOKS, MIDDLE_LOOKS)


SWITCH_S = 0.001


def switch_often() -> None:
    sys.setswitchinterval(SWITCH_S)


TURN_S = 0.02
SYSTEM_CALLS = {"x86_64": 314, "aarch64": 274}
"""The number of sched_setattr; glibc has a name for it only since 2.41."""
ATTRIBUTES = struct.Struct("IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority; runtime, deadline and period in ns."""


def take_long_turns(turn_s: float = TURN_S, thread: int = 0) -> bool:
    """Ask the scheduler for turns of so many seconds. It holds for a thread (by default the calling
    one) and all threads that it starts from now on.

    False where the kernel does not know the request or forbids it; nothing changes then. A kernel
    before 6.12 answers True and changes nothing.
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
