"""One `sluice up` per data folder: a lock that the kernel drops with the process that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.supervisor.errors import CannotStart


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Hold DATA/up.lock; the holder's pid stands in it. Raises CannotStart if it is held."""
    descriptor = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, data)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, data: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as held:
        holder = os.pread(descriptor, 20, 0).decode().strip()
        raise CannotStart(
            f"another `sluice up` (pid {holder or 'unknown'}) runs on {data};"
            " stop it, or choose another folder with --data"
        ) from held
