"""What the process of adapters adds to its library: CPU for each chunk of a stream.

    python -m bench.adapters [--chunks 4000] [--rounds 5]

A small server streams Anthropic's events. `bare` is the library in a process of its own, called as
its documents do and read to the end; `adapters` is `sluice providers` before the same server, read
by HTTP. CPU is user and system time of the one process between the first and the last chunk of all
rounds, which take turns; the first of each is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import psutil

from billing.types import Usage
from tests.providers.conftest import KEYS, PYTHON, SECRET, running_providers
from tests.providers.fakes import fake_provider

MODEL = "anthropic/claude-haiku-4-5"
BARE = """
import asyncio, os, sys
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

async def read(url, key):
    stream = await litellm.acompletion(
        model={model!r}, messages=[{{"role": "user", "content": "Tell."}}], max_tokens=64,
        api_base=url, api_key=key, stream=True, stream_options={{"include_usage": True}},
    )
    return [chunk async for chunk in stream]

async def main():
    print("ready", flush=True)
    for line in sys.stdin:
        print(len(await read(*line.split())), flush=True)

asyncio.run(main())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with subprocess.Popen(
        [PYTHON, "-c", BARE.format(model=MODEL)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as bare:
        print(json.dumps(asyncio.run(measure(options.chunks, options.rounds, bare))))


async def measure(chunks: int, rounds: int, bare: subprocess.Popen[str]) -> dict[str, Any]:
    assert bare.stdin is not None and bare.stdout is not None
    into, out = bare.stdin, bare.stdout
    key = KEYS["SLUICE_PROVIDER_KEY_PLAIN"]
    words = tuple(f"word{number} " for number in range(chunks))
    with running_providers() as adapters:
        async with fake_provider("anthropic", Usage(input=9, output=chunks), words=words) as fake:
            await asyncio.to_thread(out.readline)

            async def read_bare() -> None:
                into.write(f"{fake.url} {key}\n")
                into.flush()
                assert int(await asyncio.to_thread(out.readline)) >= chunks

            async def read_adapters() -> None:
                assert await _chunks(adapters.url, fake.url) >= chunks

            of: dict[str, list[float]] = {"bare": [], "adapters": []}
            for number in range(rounds + 1):
                for name, pid, read in (
                    ("bare", bare.pid, read_bare),
                    ("adapters", adapters.process.pid, read_adapters),
                ):
                    used_us = await _cpu_us(pid, read)
                    if number:
                        of[name].append(used_us / chunks)
    medians = {f"{name}_us_per_chunk": round(statistics.median(v), 1) for name, v in of.items()}
    ratio = statistics.median(of["adapters"]) / statistics.median(of["bare"])
    return {"chunks": chunks, "rounds": rounds, **medians, "ratio": round(ratio, 2)}


async def _cpu_us(pid: int, read: Callable[[], Any]) -> float:
    process = psutil.Process(pid)
    before = process.cpu_times()
    await read()
    after = process.cpu_times()
    return 1e6 * (after.user - before.user + after.system - before.system)


async def _chunks(url: str, provider_url: str) -> int:
    headers = {
        "authorization": f"Bearer {SECRET}",
        "x-sluice-provider-url": provider_url,
        "x-sluice-provider-key": "SLUICE_PROVIDER_KEY_PLAIN",
    }
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Tell."}], "max_tokens": 64}
    async with httpx.AsyncClient(timeout=120) as client:
        stream = client.stream(
            "POST", f"{url}/v1/chat/completions", json=body | {"stream": True}, headers=headers
        )
        async with stream as response:
            return sum([line.startswith("data:") async for line in response.aiter_lines()])


if __name__ == "__main__":
    sys.exit(main())
