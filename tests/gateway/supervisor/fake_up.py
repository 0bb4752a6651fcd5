"""`sluice up` with small parts in place of the real ones; everything else is the real thing.

    python -m tests.gateway.supervisor.fake_up

Each part starts a child of its own, as Ray does, so that ending a part has something to miss.
"""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

from gateway.settings import Settings
from gateway.supervisor.part import PartSpec
from gateway.supervisor.ready_file import Ready
from gateway.supervisor.up import Prepared, up

PART = """
import os, signal, subprocess, sys, time
name, behaviour = sys.argv[1], sys.argv[2]
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", name])
if behaviour.startswith("stubborn"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "broken":
    sys.exit("fake: no such thing")
print("something else", flush=True)
print("ready", name, flush=True)
held = []
while True:
    if behaviour.endswith("leaking"):
        held.append(b"x" * (2 << 20))
    time.sleep(0.02 if behaviour.endswith("leaking") else 600)
"""
LEAK_BYTES = 64 << 20


def fake_parts(settings: Settings, data: Path) -> Prepared:
    behaviour = os.environ.get("FAKE_BEHAVIOUR", "good")
    specs = [
        PartSpec("once", (sys.executable, "-S", "-c", "pass"), once=True),
        _spec("first", "good", "once"),
        _spec("second", behaviour, "first"),
    ]

    if wanted := os.environ.get("FAKE_WANTED"):

        async def appears() -> None:
            while not Path(wanted).exists():  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(0.02)

        third = _spec("third", os.environ.get("FAKE_THIRD", "good"))
        specs.append(replace(third, wanted=appears))

    async def open_up() -> Ready:
        return Ready("http://127.0.0.1:1", "http://127.0.0.1:1/console", "a", "b", ["m"])

    return specs, open_up


def _spec(name: str, behaviour: str, *needs: str) -> PartSpec:
    argv = (sys.executable, "-S", "-c", PART, name, behaviour)
    bytes_max = LEAK_BYTES if behaviour.endswith("leaking") else None
    ready = rf"^ready {name}\b"
    return PartSpec(name, argv, ready=ready, needs=needs, memory_bytes_max=bytes_max)


if __name__ == "__main__":
    sys.exit(up(fake_parts))
