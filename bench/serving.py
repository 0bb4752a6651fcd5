"""The whole stack as a user meets it: starts, 0 to 1, throughput, added latency, memory.

`python -m bench.serving [--engine vllm] [--out bench/raw/serving.json]` starts Sluice in a
temporary folder with the example settings, twice (the second start finds its data), and prints one
table. Callers run on this machine beside everything else. The added latency is that of the same
call sent through the gateway and straight to the worker's port, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.running import QUESTION, ROOT, Running, new_folder

MODEL = "sluice-small"
POOL = "small-reserved"
NAP = "bench-nap"
"""A model and a pool."""
CALLERS = (1, 8, 32)
TOKENS = 200
COLD_STARTS = 5
PAIRS = 300
LOOK_S = 0.01
HOT = {"temperature": 2.0}
"""So hot that the model seldom ends by itself before `TOKENS`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "serving.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", default="continuous")
    options = parser.parse_args()
    data = new_folder()
    figures: dict[str, Any] = {}
    with Running(data, SLUICE_ENGINE=options.engine) as first:
        figures["first_start"] = start_s(first)
        _say("first start", figures["first_start"])
    with Running(data, SLUICE_ENGINE=options.engine) as second:
        figures["second_start"] = start_s(second)
        _say("second start", figures["second_start"])
        figures["throughput"] = _throughput(second, options.rounds)
        figures["added_latency_ms"] = _added_latency(second)
        _say("added latency", figures["added_latency_ms"])
        figures["memory_mb"] = second.memory_mb()
        _say("memory", figures["memory_mb"])
        figures["zero_to_one_s"] = zero_to_one(second)
        _say("0 to 1", figures["zero_to_one_s"])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=1) + "\n")


def start_s(sluice: Running) -> dict[str, float]:
    sluice.ask(MODEL)
    answered_s = time.perf_counter() - sluice.started
    return {"ready_s": round(sluice.ready_s, 2), "first_answer_s": round(answered_s, 2)}


# --- throughput ----------------------------------------------------------------------------------


def _throughput(sluice: Running, rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for callers in CALLERS:
        rates = [asyncio.run(_tokens_per_s(sluice, callers)) for _ in range(rounds)]
        found[str(callers)] = {"median": round(statistics.median(rates)), "rounds": rates}
        _say(f"tokens/s at {callers} callers through the gateway", found[str(callers)])
    return found


async def _tokens_per_s(sluice: Running, callers: int) -> float:
    """All start together and stream to the end; tokens by the usage chunks over wall time."""
    async with httpx.AsyncClient(timeout=120.0) as client:
        started = time.perf_counter()
        counts = await asyncio.gather(*(_stream(sluice, client, n) for n in range(callers)))
        return round(sum(counts) / (time.perf_counter() - started), 1)


async def _stream(sluice: Running, client: httpx.AsyncClient, seed: int) -> int:
    body = {
        "model": MODEL,
        "messages": QUESTION,
        "max_tokens": TOKENS,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        **HOT,
    }
    url, headers = f"{sluice.base_url}/v1/chat/completions", sluice.tenant_headers
    tokens = 0
    async with client.stream("POST", url, headers=headers, json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {") and '"choices":[]' in line:
                tokens = json.loads(line[6:])["usage"]["completion_tokens"]
    return tokens


# --- latency -------------------------------------------------------------------------------------


def _added_latency(sluice: Running) -> dict[str, float]:
    """p50 and p99 of a one-token call, whole through the gateway and direct as its frames."""
    address = sluice.warm_address(POOL)

    def direct(number: int) -> None:
        body = {
            "model": MODEL,
            "messages": QUESTION,
            "max_tokens": 1,
            "temperature": 0,
            "stream": True,
            "sluice": {"request_id": f"req_bench{number}", "cache_salt": "bench"},
        }
        url = f"{address}/v1/chat/completions"
        sluice.http.post(url, headers=sluice.worker_headers, json=body).raise_for_status()

    def through(_number: int) -> None:
        sluice.ask(MODEL, temperature=0)

    times: dict[str, list[float]] = {"direct": [], "through": []}
    for number in range(PAIRS + 20):
        for name, call in (("direct", direct), ("through", through)):
            took = _timed_ms(call, number)
            if number >= 20:
                times[name].append(took)
    p50 = {name: statistics.median(values) for name, values in times.items()}
    p99 = {name: statistics.quantiles(values, n=100)[98] for name, values in times.items()}
    return {
        "direct_p50": round(p50["direct"], 2),
        "through_p50": round(p50["through"], 2),
        "added_p50": round(p50["through"] - p50["direct"], 2),
        "direct_p99": round(p99["direct"], 2),
        "through_p99": round(p99["through"], 2),
        "added_p99": round(p99["through"] - p99["direct"], 2),
    }


def _timed_ms(call: Callable[[int], None], number: int) -> float:
    started = time.perf_counter()
    call(number)
    return (time.perf_counter() - started) * 1000


# --- 0 to 1 --------------------------------------------------------------------------------------


def zero_to_one(sluice: Running) -> dict[str, Any]:
    """A call to a cold pool of its own, from the request to the whole answer, then cold again."""
    add_napping_pool(sluice)
    return _calls(sluice, lambda pool: not pool["replicas"], "cold_start_s")


def asleep_to_one(sluice: Running) -> dict[str, Any]:
    """The same of a pool whose one replica sleeps, after `zero_to_one`."""
    headers = {"authorization": f"Bearer {sluice.ready['admin_key']}"}
    url = f"{sluice.base_url}/admin/v1/pools/{NAP}"
    sluice.http.patch(url, headers=headers, json={"sleep_idle_s": 600.0}).raise_for_status()
    time.sleep(3.0)
    sluice.ask(NAP)
    return _calls(
        sluice, lambda pool: {r["state"] for r in pool["replicas"]} == {"SLEEPING"}, "wake_s"
    )


def _calls(
    sluice: Running, is_ready: Callable[[dict[str, Any]], bool], predicted: str
) -> dict[str, Any]:
    """`predicted` is the field of the fleet that says how long the start will take; its error is
    that of the whole call. `eta_errors` are those of the first `eta_s` that the fleet tells of a
    start, by when its replica is warm."""
    times, errors, eta_errors = [], [], []
    for _ in range(COLD_STARTS):
        while not is_ready(pool := sluice.pool(NAP)):
            time.sleep(0.2)
        with ThreadPoolExecutor(1) as beside:
            error = beside.submit(_eta_error, sluice)
            started = time.perf_counter()
            sluice.ask(NAP)
            times.append(round(time.perf_counter() - started, 3))
            eta_errors.append(error.result())
        errors.append(round(abs(pool[predicted] - times[-1]) / times[-1], 3))
    return {
        "median": statistics.median(times),
        "rounds": times,
        "prediction_errors": errors,
        "eta_errors": eta_errors,
    }


def _eta_error(sluice: Running) -> float | None:
    """Of the first prediction of the start that begins now, as a share of what it took. None: it
    was over before it was seen."""
    predicted_s, told = None, 0.0
    while True:
        replicas = sluice.pool(NAP)["replicas"]
        now = time.perf_counter()
        if predicted_s is None and (etas := [r["eta_s"] for r in replicas if r["eta_s"]]):
            predicted_s, told = min(etas), now
        if any(r["state"] == "WARM" for r in replicas):
            took_s = now - told
            return None if predicted_s is None else round(abs(predicted_s - took_s) / took_s, 3)
        time.sleep(LOOK_S)


def add_napping_pool(sluice: Running, **fields: Any) -> None:
    """A pool of its own that goes cold after a second."""
    headers = {"authorization": f"Bearer {sluice.ready['admin_key']}"}

    def put(path: str, body: dict[str, Any]) -> None:
        url = f"{sluice.base_url}/admin/v1{path}"
        sluice.http.request(
            "POST" if path == "/prices" else "PUT", url, headers=headers, json=body
        ).raise_for_status()

    put(
        f"/models/{NAP}",
        {
            "path": str(ROOT / "models" / MODEL),
            "context_tokens": 512,
            "max_output_tokens": 256,
            "size_rank": 0,
            "quality": 0.0,
        },
    )
    put(
        f"/pools/{NAP}",
        {
            "model": NAP,
            "capacity_class": "reserved",
            "idle_s": 1.0,
            "cold_start_s": 5.0,
            **fields,
        },
    )
    listed = sluice.http.get(f"{sluice.base_url}/admin/v1/prices", headers=headers).json()["data"]
    active = max((v for v in listed if v["status"] == "active"), key=lambda v: v["effective_from"])
    rates = active["rates"] + [
        rate | {"model": NAP} for rate in active["rates"] if rate["model"] == MODEL
    ]
    put("/prices", {"rates": rates, "note": "bench"})
    while not sluice.has_pool(NAP):
        time.sleep(0.2)
    time.sleep(3.0)


def _say(name: str, figures: Any) -> None:
    print(f"{name}: {json.dumps(figures)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
