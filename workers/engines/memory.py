"""Memory that a process held for a model, back to the system. Objects of a model refer to each
other in circles, and the C library keeps what was freed. Both hold memory until somebody says
otherwise."""

from __future__ import annotations

import ctypes
import gc
import sys


def give_back() -> None:
    """May take a tenth of a second, so it is for a thread."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
        if trim is not None:
            trim(0)
