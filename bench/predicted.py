"""How well times to the first token and costs are predicted, on the real stack with mixed pools.

`python -m bench.predicted [--engine vllm] [--callers 2] [--out bench/raw/predicted.json]` starts
Sluice in a temporary folder: two models of the chosen engine on Ray, and a server outside whose
first token takes 40 ms, 4 us a byte and a lognormal of 0.15. Callers send prompts of 10 to 700
words in a closed loop. Each target first sees LEARNED calls; then the gateway compares each
prediction, made before its call, with what came (the last 256 of each target, by
`/admin/v1/calibrations`). Costs: what the decision expected of the calls of the second part, beside
what is booked for them. Last, how many candidates are predicted a second on one core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import uvicorn

from bench.running import ROOT, Running, free_port, new_folder
from routing.economics.predictor import Facts, Load, Predictor
from routing.economics.roofline import roofline
from routing.economics.shape import ModelShape
from routing.hardware.catalogue import Precision, shipped

POOLS = {
    "sluice-small": "small-reserved",
    "sluice-large": "large-reserved",
    "their-tale": "outside",
}
LEARNED, COMPARED = 200, 256
WORDS = ("a", "fox", "saw", "the", "old", "mill", "where", "nobody", "had", "been")
OUTSIDE = """
[[models]]
name = "their-tale"
context_tokens = 16384
max_output_tokens = 1024
size_rank = 3
quality = 0.9

[[pools]]
name = "outside"
model = "their-tale"
capacity_class = "external"
upstream_model = "tale"
base_url = "http://127.0.0.1:{port}/v1"
cost_input_usd_per_mtok = "0.50"
cost_output_usd_per_mtok = "1.50"

[[prices]]
model = "their-tale"
input_usd_per_mtok = "1"
output_usd_per_mtok = "3"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "predicted.json")
    parser.add_argument("--engine", default="continuous")
    parser.add_argument("--callers", type=int, default=2)
    options = parser.parse_args()
    folder, port = new_folder(), free_port()
    server = _outside(port)
    config = folder / "predicted.toml"
    text = (ROOT / "sluice.toml").read_text().replace('"models/', f'"{ROOT}/models/')
    config.write_text(text + OUTSIDE.format(port=port))
    with Running(folder, free_port(), config, SLUICE_ENGINE=options.engine) as sluice:
        asyncio.run(_load(sluice, LEARNED, options.callers))
        rids = asyncio.run(_load(sluice, COMPARED, options.callers))
        figures = {"engine": options.engine, "targets": _calibrations(sluice)}
        figures |= {"callers": options.callers, "load_average": os.getloadavg()}
        figures["cost"] = _costs(sluice, rids)
    server.should_exit = True
    figures["candidates_per_s"] = _candidates_per_s()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


# --- calls ---------------------------------------------------------------------------------------


async def _load(sluice: Running, calls: int, callers: int) -> dict[str, list[str]]:
    """So many calls of each model, in an order of chance; ids of the calls by pool."""
    rng = random.Random(calls)
    models = [model for model in POOLS for _ in range(calls)]
    rng.shuffle(models)
    rids: dict[str, list[str]] = {pool: [] for pool in POOLS.values()}
    async with httpx.AsyncClient(timeout=120.0) as http:

        async def caller() -> None:
            while models:
                model = models.pop()
                rids[POOLS[model]].append(await _call(http, sluice, model, rng))

        await asyncio.gather(*(caller() for _ in range(callers)))
    return rids


async def _call(http: httpx.AsyncClient, sluice: Running, model: str, rng: random.Random) -> str:
    words = round(math.exp(rng.uniform(math.log(10), math.log(700))))
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": rng.choice([16, 32, 64]),
        "stream": True,
        "temperature": 1.0,
    }
    url = f"{sluice.base_url}/v1/chat/completions"
    async with http.stream("POST", url, json=body, headers=sluice.tenant_headers) as answer:
        answer.raise_for_status()
        async for _ in answer.aiter_bytes():
            pass
        return str(answer.headers["x-request-id"])


def _outside(port: int) -> uvicorn.Server:
    rng = random.Random(7)

    async def app(scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["type"] != "http":
            return
        sent = b""
        while (message := await receive())["type"] == "http.request":
            sent += message.get("body", b"")
            if not message.get("more_body"):
                break
        await asyncio.sleep((0.04 + len(sent) * 4e-6) * rng.lognormvariate(0, 0.15))
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        tokens = rng.randrange(5, 16)
        for n in range(tokens):
            finish = "stop" if n == tokens - 1 else None
            chunk = {"index": 0, "delta": {"content": "word "}, "finish_reason": finish}
            await send(_event({"choices": [chunk]}))
            await asyncio.sleep(0.005)
        usage = {"prompt_tokens": max(1, len(sent) // 5), "completion_tokens": tokens}
        usage["total_tokens"] = sum(usage.values())
        await send(_event({"choices": [], "usage": usage}))
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    def _event(said: object) -> dict[str, Any]:
        data = b"data: " + json.dumps(said).encode() + b"\n\n"
        return {"type": "http.response.body", "body": data, "more_body": True}

    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    return server


# --- figures -------------------------------------------------------------------------------------


def _calibrations(sluice: Running) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {sluice.ready['admin_key']}"}
    rows = sluice.http.get(f"{sluice.base_url}/admin/v1/calibrations", headers=headers).json()
    return {row["pool"]: row for row in rows["data"] if row["pool"] in POOLS.values()}


def _costs(sluice: Running, rids: dict[str, list[str]]) -> dict[str, Any]:
    """USD of these calls; they are booked once the ledger has them."""
    headers = {"authorization": f"Bearer {sluice.ready['admin_key']}"}
    time.sleep(5.0)
    found = {}
    for pool, ids in rids.items():
        expected = booked = 0.0
        for rid in ids:
            url = f"{sluice.base_url}/admin/v1/requests/{rid}"
            call = sluice.http.get(url, headers=headers).raise_for_status().json()
            expected += float(call["candidates"][0]["cogs_usd"])
            booked += float(call["cogs"]["cogs_usd"])
        found[pool] = {"expected_usd": expected, "booked_usd": booked, "ratio": booked / expected}
    return found


def _candidates_per_s() -> float:
    """Of a model with a roofline, after what was observed of it."""
    shape = ModelShape(70e9, 70e9, 80, 64, 8, 128, 131_072)
    predictor = Predictor()
    predictor.learn("t", roofline(shape, Precision.FP8, shipped()["h200"]))
    for n in range(400):
        predictor.observe_first_token(Facts("t", 100 + n), 0.1 + n * 1e-4)
    count, started = 20_000, time.process_time()
    for n in range(count):
        predictor.speeds("t", Load(n % 30, n % 30 * 800, n % 5 * 300), 32)
    return count / (time.process_time() - started)


if __name__ == "__main__":
    main()
