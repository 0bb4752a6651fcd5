"""`python -m providers`: one process of adapters, told everything by its environment.

The composition root. `sluice providers` starts it with a new environment: provider keys and what
stands below, and nothing of Sluice's own stores.
"""

import asyncio
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from providers.bounds import Bounds
from providers.keys import Keys
from providers.library import Library
from providers.server import serve

PREFIX = "SLUICE_PROVIDERS_"


def main() -> int:
    try:
        host, port = os.environ[f"{PREFIX}HOST"], int(os.environ[f"{PREFIX}PORT"])
        secret = os.environ.pop(f"{PREFIX}SECRET")
        bounds = Bounds.of(os.environ, PREFIX)
        folder = os.environ.get(f"{PREFIX}KEYS_FOLDER")
        keys = Keys(os.environ, Path(folder) if folder else None)
    except (KeyError, ValueError) as wrong:
        print(f"sluice providers: {wrong} of its environment: start it as `sluice providers`")
        return 2
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # keys are in memory
    with suppress(KeyboardInterrupt):
        try:
            asyncio.run(_run(host, port, secret, bounds, keys))
        except OSError as taken:
            print(f"sluice providers: cannot listen on {host}:{port}: {taken.strerror}")
            return 1
    return 0


async def _run(host: str, port: int, secret: str, bounds: Bounds, keys: Keys) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serve(Library(), host, port, secret, bounds, keys) as address:
        print(f"ready providers {address}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    sys.exit(main())
