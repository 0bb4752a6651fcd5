"""How much memory a part takes, and what is to follow. One that leaks is started again before the
machine has none left for the others."""

from contextlib import suppress
from enum import StrEnum

import psutil

AT_ONCE = 1.5
"""Times its bound: so much of it nobody waits for."""
MB = 1 << 20


class Excess(StrEnum):
    NONE = "none"
    TO_END = "to end"
    """What it has begun has the time of any stop."""
    AT_ONCE = "at once"


def excess(used_bytes: int, bytes_max: int) -> Excess:
    if used_bytes <= bytes_max:
        return Excess.NONE
    return Excess.AT_ONCE if used_bytes > AT_ONCE * bytes_max else Excess.TO_END


def excess_words(used_bytes: int, bytes_max: int) -> str:
    return f"it took {used_bytes // MB} MB of memory, and may have {bytes_max // MB}"


def memory_bytes(pid: int) -> int:
    """Resident, of a process and of those that it started. 0: it is gone."""
    used = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                used += each.memory_info().rss
    return used
