"""Bytecode instructions of Python for a call in which nothing fails, beside another checkout.

`python -m bench.opcodes --beside FOLDER [--calls 40] [--out bench/raw/opcodes.jsonl]` runs a
gateway in a process, with real Redis and SQLite, and calls it over ASGI: whole answers, and streams
of 20 chunks, of a server in another process. Both checkouts do so at the same time. What is counted
is what Python runs between the call and its end, the caller's part and what the gateway does by
itself meanwhile included. So a median is told, and the least, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
WARM_UP = 20
CHUNKS = 20
SLOW = {"limiter": {"timeout_ms": 20_000.0, "connect_timeout_ms": 20_000.0}, "fleet_poll_s": 5.0}


class Opcodes:
    """How many were run since `begin`."""

    def __init__(self) -> None:
        self.count = 0

    def begin(self) -> None:
        self.count = 0
        sys.settrace(self._trace)

    def end(self) -> int:
        sys.settrace(None)
        return self.count

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            self.count += 1
        elif event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._trace


def answer(request: Any) -> Any:
    from gateway.upstream import fake

    used = fake.usage_document(7, CHUNKS)
    if request.body.get("stream"):
        words = [fake.plain_frame("word ") for _ in range(CHUNKS)]
        whole = b"".join(
            [*words, fake.plain_frame(finish="stop"), fake.plain_usage(7, CHUNKS), fake.DONE]
        )
        return fake.Script([fake.Send(whole)])
    message = {"role": "assistant", "content": "word " * CHUNKS}
    document = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": used,
    }
    json_type = (("content-type", "application/json"),)
    return fake.Script([fake.Send(json.dumps(document).encode())], headers=json_type)


async def serve() -> None:
    """Until it is killed; says its address first."""
    from gateway.upstream import fake

    async with fake.FakeUpstream(answer) as upstream:
        print(upstream.address, flush=True)
        await asyncio.Event().wait()


async def counted(address: str, calls: int) -> dict[str, Any]:
    """Of the checkout in the working directory."""
    from tests.gateway.edge import FAR, body, edge
    from tests.redis_server import RedisServer

    figures: dict[str, Any] = {"tree": Path.cwd().name, "load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(prefix="op-") as folder, RedisServer(Path(folder)) as server:
        data = Path(folder) / "data"
        await asyncio.to_thread(data.mkdir)
        far = {"outer": f"{address}/v1", "outer_pool": {"model": FAR}, "gateway": SLOW}
        async with edge(server, server.client(), data, **far) as one:
            for stream in (False, True):
                wanted, opcodes = body(model=FAR, stream=stream, stream_options=None), Opcodes()
                counts = []
                for number in range(WARM_UP + calls):
                    if number >= WARM_UP:
                        opcodes.begin()
                    response = await one.post(wanted)
                    counts.append(opcodes.end())
                    assert response.status == 200, response.body
                name = "stream" if stream else "whole"
                figures[name] = statistics.median(counts[WARM_UP:])
                figures[f"{name}_least"] = min(counts[WARM_UP:])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "opcodes.jsonl")
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--serve", action="store_true", help="what it starts by itself")
    parser.add_argument("--of", help="what it starts by itself")
    options = parser.parse_args()
    sys.path.insert(0, os.getcwd())
    if options.serve:
        asyncio.run(serve())
        return
    if options.of:
        print(json.dumps(asyncio.run(counted(options.of, options.calls))), flush=True)
        return
    me = [sys.executable, str(Path(__file__).resolve())]
    server = subprocess.Popen([*me, "--serve"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None, "it says its address"
        asked = [*me, "--of", server.stdout.readline().strip(), "--calls", str(options.calls)]
        trees = [*([options.beside.resolve()] if options.beside else []), ROOT]
        runs = [
            subprocess.Popen(asked, cwd=tree, stdout=subprocess.PIPE, text=True) for tree in trees
        ]
        lines = [run.communicate()[0] for run in runs]
    finally:
        server.kill()
        server.wait()
    print("".join(lines), end="")
    with open(options.out, "a") as out:
        out.write("".join(lines))


if __name__ == "__main__":
    main()
