"""Replica choice on a real stack: `python -m bench.replica_choice_served [--routers FOLDER]`.

`sluice up` with three replicas of `sluice-small` in Ray Serve, on the default engine with its
prefix cache of 8,192 tokens each. 50 conversations of 8 turns: a common beginning of some 200
tokens, answers of 24, 5 s between turns. Each way has texts of its own, so no cache serves two.
"gateway" is the product. All others reach a replica through a relay of this process, which adds
the worker's secret: they choose at random, by calls in flight, or by `vllm-router` and
`sglang-router` (cache-aware), whose wheels lie in FOLDER/vllm-site and FOLDER/sglang-site. "one
replica" has every call at one. The busiest replica is that which computed longest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import httpx2 as httpx
import uvicorn

from bench.running import ROOT, Running, free_port, new_folder

MODEL, POOL, REPLICAS = "sluice-small", "small-reserved", 3
CONVERSATIONS, TURNS, THINK_S, OUTPUT = 50, 8, 5.0, 24
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": OUTPUT,
    "temperature": 0,
    "ignore_eos": True,
    "stream": True,
}
ROUTERS = {"vllm-router": "vllm", "sglang-router": "sglang"}


@dataclass
class Turn:
    ttft_s: float
    prompt: int
    cached: int
    replica: int | None


@dataclass
class Result:
    way: str
    turns: list[Turn] = field(default_factory=list)
    failures: int = 0


class ThreeReplicas(Running):
    """A Sluice whose only pool has three replicas from its start on."""

    def _command(self) -> list[str]:
        text = (ROOT / "sluice.toml").read_text()
        first, *others = re.split(r"(?m)^(?=\[\[pools\]\])", text)
        pool, rest = others[0], re.split(r"(?m)^(?=# -+ prices)", others[-1])[1]
        for key in ("min_replicas", "max_replicas", "initial_replicas"):
            pool = re.sub(rf"(?m)^{key} = \d+", f"{key} = {REPLICAS}", pool)
        config = self.data / "three.toml"
        text = first.replace('path = "models', f'path = "{ROOT}/models') + pool + rest
        config.write_text(text)
        command = super()._command()
        command[command.index("--config") + 1] = str(config)
        return command


# ---- Relays: replicas as servers of OpenAI's API


def relay(address: str, number: int, headers: dict[str, str], client: httpx.AsyncClient) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            body = json.dumps({"object": "list", "data": [{"id": MODEL}], "model_path": MODEL})
            await _answer(send, 200, [(b"content-type", b"application/json")], body.encode())
            return
        raw = b""
        while (message := await receive()).get("more_body"):
            raw += message["body"]
        if scope["path"] != "/v1/chat/completions":  # vllm-router asks for a rendering first
            await _answer(send, 404, [], b"")
            return
        said = json.loads(raw + message["body"])["messages"]
        called = {"request_id": f"req_{time.monotonic_ns()}", "cache_salt": "bench"}
        asked = ASKED | {"messages": said, "sluice": called}  # routers add fields of their own
        url = f"{address}/v1/chat/completions"
        kinds = [(b"content-type", b"text/event-stream"), (b"x-replica", str(number).encode())]
        async with client.stream("POST", url, headers=headers, json=asked) as answer:
            await send(
                {"type": "http.response.start", "status": answer.status_code, "headers": kinds}
            )
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    return app


async def _answer(
    send: Any, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    await _until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def routing(site: Path, kind: str, workers: Sequence[str]) -> AsyncIterator[str]:
    """A router of others over the relays, with its own defaults but for the policy."""
    port, metrics = free_port(), free_port()
    command = [sys.executable, "-m", f"{kind}_router.launch_router", "--worker-urls", *workers]
    command += ["--policy", "cache_aware", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--prometheus-port", str(metrics), "--log-level", "error"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(timeout=5.0) as client:
            for _ in range(120):
                await asyncio.sleep(0.5)
                with suppress(httpx.HTTPError):
                    if (await client.get(f"{url}/health")).status_code == 200:
                        break
            else:
                raise RuntimeError(f"{kind} does not become ready")
        await asyncio.sleep(2.0)  # until its workers are registered
        yield url
    finally:
        process.terminate()
        await process.wait()


# ---- Conversations


class Talk:
    """What 50 callers say, the same for each way but for its name at the beginning."""

    def __init__(self, way: str, seed: int) -> None:
        self._rng = Random(7)
        common = " ".join(self._words(140))
        self.common = {"role": "system", "content": f"{way} {seed}. {common}"}

    def _words(self, count: int) -> list[str]:
        return [self._rng.choice(LEXICON) for _ in range(count)]

    def asks(self) -> dict[str, str]:
        return {"role": "user", "content": " ".join(self._words(self._rng.randint(15, 70)))}


LEXICON = [
    "fox",
    "river",
    "small",
    "old",
    "brown",
    "house",
    "tree",
    "went",
    "saw",
    "happy",
    "little",
    "girl",
    "boy",
    "day",
    "sun",
    "rain",
    "blue",
    "red",
    "big",
    "run",
    "play",
    "friend",
    "dog",
    "cat",
    "ball",
    "garden",
    "apple",
    "bird",
    "song",
    "night",
    "star",
    "moon",
    "walk",
    "found",
    "lost",
    "door",
    "key",
    "story",
    "water",
    "stone",
    "hill",
    "road",
    "boat",
    "wind",
    "cold",
    "warm",
    "bread",
    "milk",
    "mother",
    "father",
    "sister",
    "brother",
]

Ask = Callable[[list[dict[str, str]]], Awaitable[tuple[Turn, str]]]


async def conversations(way: str, seed: int, ask: Ask) -> Result:
    result, talk = Result(way), Talk(way, seed)

    async def one(number: int) -> None:
        rng = Random(number)
        messages = [talk.common]
        await asyncio.sleep(rng.uniform(0, THINK_S))
        for _ in range(TURNS):
            messages.append(talk.asks())
            try:
                turn, text = await ask(messages)
            except httpx.HTTPError:
                result.failures += 1
                return
            result.turns.append(turn)
            messages.append({"role": "assistant", "content": text})
            await asyncio.sleep(rng.expovariate(1 / THINK_S))

    await asyncio.gather(*(one(number) for number in range(CONVERSATIONS)))
    return result


def asking(
    client: httpx.AsyncClient, where: Callable[[], tuple[str, int | None]], headers: dict[str, str]
) -> Ask:
    async def ask(messages: list[dict[str, str]]) -> tuple[Turn, str]:
        url, number = where()
        if number is not None:
            IN_FLIGHT[number] += 1
        try:
            return await _stream(client, f"{url}/v1/chat/completions", headers, messages, number)
        finally:
            if number is not None:
                IN_FLIGHT[number] -= 1

    return ask


IN_FLIGHT: Counter[int] = Counter()


async def _stream(
    client: httpx.AsyncClient,
    url: str,
    headers: dict[str, str],
    messages: list[dict[str, str]],
    number: int | None,
) -> tuple[Turn, str]:
    body = ASKED | {"messages": messages, "stream_options": {"include_usage": True}}
    began, first, text, usage = time.perf_counter(), 0.0, "", {}
    async with client.stream("POST", url, headers=headers, json=body) as answer:
        answer.raise_for_status()
        replica = answer.headers.get("x-replica", number)
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            for choice in event.get("choices", ()):
                if choice["delta"].get("content"):
                    first = first or time.perf_counter()
                    text += choice["delta"]["content"]
            usage = event.get("sluice", {}).get("usage") or event.get("usage") or usage
    prompt, cached = _counts(usage)
    ttft_s = (first or time.perf_counter()) - began
    return Turn(ttft_s, prompt, cached, None if replica is None else int(replica)), text


def _counts(usage: dict[str, Any]) -> tuple[int, int]:
    """Of a worker's frame, or of OpenAI's form."""
    if "prompt_tokens" in usage:
        details = usage.get("prompt_tokens_details") or {}
        return usage["prompt_tokens"], details.get("cached_tokens", 0)
    return usage["input"] + usage["cached_input"], usage["cached_input"]


# ---- Ways

WAYS = ("gateway", "least loaded", "random", "one replica", *ROUTERS)


async def measured(sluice: Running, options: argparse.Namespace) -> AsyncIterator[dict[str, Any]]:
    addresses = warm(sluice)
    rng = Random(1)
    async with AsyncExitStack() as stack:
        limits = httpx.Limits(max_connections=400)
        new = httpx.AsyncClient
        client = await stack.enter_async_context(new(timeout=120.0, limits=limits))
        inner = await stack.enter_async_context(new(timeout=120.0, limits=limits))
        relays = [
            await stack.enter_async_context(
                listening(relay(address, number, sluice.worker_headers, inner))
            )
            for number, address in enumerate(addresses)
        ]

        def at_random() -> tuple[str, int]:
            number = rng.randrange(REPLICAS)
            return relays[number], number

        def least_loaded() -> tuple[str, int]:
            number = min(range(REPLICAS), key=lambda n: (IN_FLIGHT[n], rng.random()))
            return relays[number], number

        ways: dict[str, Ask] = {
            "gateway": asking(client, lambda: (sluice.base_url, None), sluice.tenant_headers),
            "least loaded": asking(client, least_loaded, {}),
            "random": asking(client, at_random, {}),
            "one replica": asking(client, lambda: (relays[0], 0), {}),
        }
        for seed in range(options.rounds):
            for way, ask in ways.items():
                if way in options.ways:
                    yield await _row(sluice, way, seed, ask)
            for way, kind in ROUTERS.items():
                if way not in options.ways or options.routers is None:
                    continue
                async with routing(options.routers / f"{kind}-site", kind, relays) as url:
                    ask = asking(client, lambda url=url: (url, None), {})  # type: ignore[misc]
                    yield await _row(sluice, way, seed, ask)


def warm(sluice: Running) -> list[str]:
    """The addresses of replicas that take calls."""
    replicas = sluice.pool(POOL)["replicas"]
    return sorted(str(each["address"]) for each in replicas if each["state"] == "WARM")


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(2_400):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise TimeoutError


async def _row(sluice: Running, way: str, seed: int, ask: Ask) -> dict[str, Any]:
    before, load = _computed(sluice), os.getloadavg()[0]
    result = await conversations(way, seed, ask)
    await asyncio.sleep(2.0)
    work = [now - was for was, now in zip(before, _computed(sluice), strict=True)]
    waits = sorted(turn.ttft_s * 1000 for turn in result.turns)
    prompt = sum(turn.prompt for turn in result.turns)
    return {
        "way": way,
        "seed": seed,
        "turns": len(waits),
        "failures": result.failures,
        "prompt_tokens": prompt,
        "cached_share": round(sum(turn.cached for turn in result.turns) / prompt, 3),
        "ttft_ms_p50": round(median(waits)),
        "ttft_ms_p99": round(waits[int(len(waits) * 0.99)]),
        "busiest_of_mean": round(max(work) * len(work) / sum(work), 3),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
    }


def _computed(sluice: Running) -> list[int]:
    """Microseconds that each replica has computed since it started, by its own words."""
    found = []
    for address in warm(sluice):
        url = f"{address}/v1/sluice/stats"
        said = sluice.http.get(url, headers=sluice.worker_headers).raise_for_status().json()
        found.append(int(said["busy_us_total"]))
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--routers", type=Path)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "bench" / "raw" / "replica_choice_served.jsonl"
    )
    options = parser.parse_args()
    with ThreeReplicas(new_folder(), free_port()) as sluice, options.out.open("w") as out:
        await _until(lambda: len(warm(sluice)) == REPLICAS)
        async for row in measured(sluice, options):
            print(json.dumps(row), flush=True)
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
