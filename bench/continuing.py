"""Streams of vLLM's own server behind a proxy that cuts them at a random token.

`python -m bench.continuing [--streams 100] [--kinds prefix anew] [--temperatures 0 1]` starts
vLLM's server from `.venv-vllm` with the shipped small model, a proxy that cuts seven of ten streams
behind a random event, and a gateway whose pool goes on by prefix, or anew. Each stream has to be
complete or to end with an error event, and to be charged once. At temperature 0 a complete answer
has to be the one of an uncut stream, or is counted as `other`. Breakers forget what failed, since a
server that fails so often would be left alone. A line of JSON a stream goes to
bench/raw/continuing.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.running import ROOT
from billing.limits.holds import Holds
from billing.types import MOVED
from tests.gateway.edge import API_KEY, CHAT, FAR, Edge, edge, post_scope
from tests.providers.vllm_server import NAME, vllm_server
from tests.redis_server import RedisServer

RAW = Path(__file__).parent / "raw" / "continuing.jsonl"
TOKENS = 48
CUT_SHARE = 0.7
AT_ONCE = 8
ARGUMENTS = ("--max-model-len", "1024", "--max-num-seqs", str(AT_ONCE))
END = b"\n\n"


class CuttingProxy:
    """Passes a stream on, and resets it behind a random event where chance says so."""

    def __init__(self, port: int | None, rng: random.Random) -> None:
        self._port = port
        self._rng = rng
        self.cuts = self.asked = 0
        self.share = 0.0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode().lower().split("\r\n")
            size = next(int(line[15:]) for line in lines if line.startswith("content-length:"))
            body = await reader.readexactly(size)
            self.asked += 1
            left = self._rng.randint(3, TOKENS) if self._rng.random() < self.share else 10**9
            answers, upstream = await asyncio.open_connection("127.0.0.1", self._port)
            upstream.write(head.removesuffix(b"\r\n") + b"connection: close\r\n\r\n" + body)
            while data := await answers.read(65536):
                events = data.split(END)
                if len(events) > left:
                    self.cuts += 1
                    writer.write(END.join(events[:left]))
                    await writer.drain()
                    await asyncio.sleep(0.01)
                    writer.transport.abort()
                    return
                left -= len(events) - 1
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # either side hung up
        finally:
            for each in (upstream, writer):
                if each is not None:
                    each.close()


class Caller:
    """One stream, with the instant of each piece."""

    def __init__(self, one: Edge) -> None:
        self._one = one
        self.body = b""
        self.at_s: list[float] = []
        self.request_id = ""
        self.status = 0

    async def ask(self, wanted: dict[str, Any]) -> None:
        unread = [json.dumps(wanted).encode()]

        async def receive() -> dict[str, Any]:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError("nobody leaves")

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                names = {name: value for name, value in message["headers"]}
                self.request_id = names[b"x-request-id"].decode()
                self.status = message["status"]
            else:
                self.body += message["body"]
                self.at_s.append(time.monotonic())

        headers = [("authorization", f"Bearer {API_KEY}")]
        async with asyncio.timeout(120):
            await self._one.app(post_scope(CHAT, headers), receive, send)

    @property
    def _chunks(self) -> list[dict[str, Any]]:
        lines = self.body.decode().splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]

    @property
    def text(self) -> str:
        choices = [choice for chunk in self._chunks for choice in chunk.get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    @property
    def end(self) -> str:
        if self.status != 200:
            return "refused"
        failed = any("error" in chunk for chunk in self._chunks)
        whole = b"data: [DONE]" in self.body
        assert failed != whole, "a stream has one end"
        return "whole" if whole else "error"

    @property
    def gap_s(self) -> float:
        gaps = [later - sooner for sooner, later in zip(self.at_s, self.at_s[1:], strict=False)]
        return max(gaps, default=0.0)


def _wanted(number: int, temperature: float) -> dict[str, Any]:
    question = f"Tell me about gate number {number}, and who keeps it."
    return {
        "model": FAR,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": TOKENS,
        "temperature": temperature,
        "stream": True,
    }


async def _streams(one: Edge, streams: int, temperature: float) -> list[Caller]:
    turn = asyncio.Semaphore(AT_ONCE)

    async def ask(number: int) -> Caller:
        async with turn:
            caller = Caller(one)
            await caller.ask(_wanted(number, temperature))
            return caller

    return await asyncio.gather(*map(ask, range(streams)))


def _forget(*_: object) -> None:
    """Of what failed."""


async def round_of(
    url: str, kind: str, temperature: float, streams: int, texts: dict[int, str]
) -> list[dict[str, Any]]:
    """One line a stream. `texts` are those of uncut streams at temperature 0; filled if empty."""
    proxy = CuttingProxy(urlsplit(url).port, random.Random(f"{kind} {temperature}"))
    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    pool = {"model": FAR, "upstream_model": NAME, "continues": kind}
    with tempfile.TemporaryDirectory() as name, RedisServer(Path(name)) as redis_server:
        async with (
            redis_server.client() as redis,
            edge(redis_server, redis, Path(name), outer=address, outer_pool=pool) as one,
        ):
            one.holds = Holds(redis, timeout_s=30.0)
            one.parts.breakers.tell = _forget  # type: ignore[assignment,method-assign]
            if not texts:
                uncut = await _streams(one, streams, 0.0)
                texts |= {number: caller.text for number, caller in enumerate(uncut)}
            proxy.share = CUT_SHARE
            callers = await _streams(one, streams, temperature)
            settled = await one.settled()
    server.close()
    lines = []
    for number, caller in enumerate(callers):
        record = settled.get(caller.request_id)
        attempts = record.attempts if record else []
        moves = sum(attempt.outcome == MOVED for attempt in attempts)
        is_same = texts[number] == caller.text if temperature == 0 else None
        lines.append(
            {
                "kind": kind,
                "temperature": temperature,
                "end": caller.end,
                "is_same": is_same,
                "moves": moves,
                "attempts": len(attempts),
                "output": record.output if record else 0,
                "amount_nanousd": record.amount_nanousd if record else 0,
                "gap_s": round(caller.gap_s, 4),
            }
        )
    assert len({caller.request_id for caller in callers}) == streams
    return lines


def told(lines: list[dict[str, Any]]) -> str:
    ends = Counter(line["end"] for line in lines)
    moved = [line["gap_s"] for line in lines if line["moves"]]
    others = sum(line["end"] == "whole" and line["is_same"] is False for line in lines)
    gap_s = statistics.median(moved) if moved else 0.0
    alone = [line["gap_s"] for line in lines if not line["moves"]]
    refused = f", {ends['refused']} refused" if ends["refused"] else ""
    return (
        f"{lines[0]['kind']:6} temperature {lines[0]['temperature']}: {ends['whole']} whole"
        f" ({others} other), {ends['error']} ended with an error{refused}, {len(moved)} moved,"
        f" {sum(line['amount_nanousd'] > 0 for line in lines)} charges, longest gap of a moved one"
        f" {gap_s:.3f} s (of others {statistics.median(alone or [0.0]):.3f} s), load"
        f" {os.getloadavg()[0]:.1f}"
    )


async def main(streams: int, kinds: Sequence[str], temperatures: Sequence[float]) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        vllm_server(ROOT / "models" / "sluice-small", Path(name), *ARGUMENTS) as server,
        RAW.open("a") as raw,
    ):
        texts: dict[int, str] = {}
        for kind in kinds:
            for temperature in temperatures:
                lines = await round_of(server.url, kind, temperature, streams, texts)
                print(told(lines), flush=True)
                raw.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--kinds", nargs="*", default=["prefix", "anew"])
    parser.add_argument("--temperatures", nargs="*", type=float, default=[0.0, 1.0])
    options = parser.parse_args()
    asyncio.run(main(options.streams, options.kinds, options.temperatures))
