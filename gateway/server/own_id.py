"""Which gateway this one is, to Redis and to the ledger: the name of its spool folder.

Made once, by chance, when the folder is, so that gateways of one port on two hosts are two, and one
that is restarted on its spool is the one it was. Whoever copies a data folder has to remove
`spool/` from the copy.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from billing.spool.spool import SpoolInUse

CHANCE_BYTES = 6


def own_id(spools: Path, port: int, entropy: Callable[[int], bytes]) -> str:
    """Of the gateway of this port below this folder, where its spool is from then on.

    Raises SpoolInUse if a gateway of an earlier version still writes to that spool.
    """
    spools.mkdir(parents=True, exist_ok=True)
    with _locked(spools, fcntl.LOCK_EX):
        names = sorted(path.name for path in spools.glob(f"gw-{port}-*") if path.is_dir())
        if names:
            return names[0]
        name = f"gw-{port}-{entropy(CHANCE_BYTES).hex()}"
        _adopt(spools / f"gw-{port}", spools / name)
        return name


def _adopt(unnamed: Path, folder: Path) -> None:
    """The spool of an earlier version was named by the port alone: it goes on under the id."""
    if not unnamed.is_dir():
        folder.mkdir()
        return
    try:
        with _locked(unnamed, fcntl.LOCK_EX | fcntl.LOCK_NB):
            unnamed.rename(folder)
    except BlockingIOError as held:
        raise SpoolInUse(unnamed) from held


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
