"""The stack as processes: a port of its own, a clean environment, no life beyond the test run."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from contextlib import suppress

import psutil

OUTSIDE_KEY_VARIABLE = "SLUICE_PROVIDER_KEY_OUTSIDE"
OUTSIDE_KEY = "sk-outside"
"""What the gateway finds in that variable, for external pools."""

PORTS_APART = 16


def free_port() -> int:
    """A port nobody listens on, outside Ray's block and the ephemeral range; the next process looks
    some ports further on, for whoever needs several in a row."""
    for port in range(10_000 + os.getpid() * PORTS_APART % 5000, 20_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")


def environment() -> dict[str, str]:
    """This process' own, without settings that the developer may have set for Sluice."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "RAY_"))}
    return kept | {OUTSIDE_KEY_VARIABLE: OUTSIDE_KEY, "PYTHONUNBUFFERED": "1"}


def stop_with_parent() -> None:
    """In the child: be told to stop when the test run dies (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def named(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    return str(process.pid)
