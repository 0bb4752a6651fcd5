"""`python -m bench.front.size`: does the gateway stay as it is when there is more of everything?

CPU of a whole answer with 1, 100 and 100,000 keys and with 1 and 200 models and pools, in
interleaved rounds; 1,000 streams that are slow, with the memory of each; and how the memory of one
process grows under load (`--minutes`). Nothing else runs beside them but what a call needs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import insert
from sqlmodel import Session

from bench.front import load
from bench.front.load import Load
from bench.front.stack import API_KEY, Stack, end
from billing.db.engine import open_store
from gateway.catalog.bootstrap import ORGANIZATION_ID, PROJECT_ID
from gateway.tenants.ids import key_digest
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import ApiKey, Audit, KeySecret

UPSTREAM_PORT, GATEWAY_PORT = 19_110, 18_091
SLOW = "mock-100ms"
MODELS = ("mock", SLOW)
STREAMS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--growth-rate", type=int, default=300, help="calls/s, for --minutes")
    parser.add_argument("--only-growth", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    upstream = load.start_upstream(UPSTREAM_PORT)
    try:
        if not options.only_growth:
            _say_costs(options.rounds, options.seconds)
        with _gateway(1, 1) as pid:
            if not options.only_growth:
                _say(f"{STREAMS} slow streams", _slow_streams(pid))
            _say("memory under load", _growth(pid, options.minutes, options.growth_rate))
    finally:
        end(upstream)


def _say_costs(rounds: int, seconds: float) -> None:
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for what, keys, models in (
            ("1 key", 1, 1),
            ("100 keys", 100, 1),
            ("100,000 keys", 100_000, 1),
            ("200 models and pools", 1, 200),
        ):
            with _gateway(keys, models) as pid:
                found.setdefault(what, []).append(_us_a_call(pid, seconds))
    for what, us in found.items():
        _say(what, {"cpu_us_a_call": round(statistics.median(us), 1), "rounds": us})


@contextmanager
def _gateway(keys: int, models: int) -> Iterator[int]:
    """The process id of a gateway that knows so many of each and takes calls."""
    work = Path(tempfile.mkdtemp(prefix="sls-", dir="/tmp"))
    names = (*MODELS, *(f"other-{number}" for number in range(models - len(MODELS))))
    try:
        with Stack(work, GATEWAY_PORT, UPSTREAM_PORT, names) as stack, stack.gateway() as process:
            if keys > 1:
                _add_keys(f"sqlite:///{work / 'sluice.db'}", keys - 1)
                time.sleep(3.0)  # until the gateway has read the newest secrets
            load.run(GATEWAY_PORT, _asked("mock"), Load(8, seconds=0.5), None)
            yield process.pid
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _add_keys(sql_url: str, count: int) -> None:
    store = open_store(sql_url)
    now_us = round(time.time() * 1e6)
    rows = [
        {
            "id": f"key_{number}",
            "project_id": PROJECT_ID,
            "org_id": ORGANIZATION_ID,
            "name": f"key {number}",
            "prefix": "sk-sluice",
            "created_us": now_us,
        }
        for number in range(count)
    ]
    secrets: list[dict[str, Any]] = [
        {"hash": key_digest(str(row["id"])), "key_id": row["id"], "created_us": now_us}
        for row in rows
    ]

    def work(session: Session) -> Audit:
        session.execute(insert(ApiKey), rows)
        session.execute(insert(KeySecret), secrets)
        return audit

    audit = Audit(at_us=now_us, actor="bench", action="keys.add", object=str(count))
    TenantStore(store).change(audit, work)
    store.close()


def _us_a_call(pid: int, seconds: float) -> float:
    figures = load.run(GATEWAY_PORT, _asked("mock"), Load(32, seconds=seconds), pid)
    return round(figures["cores"] * 1e6 / figures["per_s"], 1)


def _slow_streams(pid: int) -> dict[str, Any]:
    """64 events each, 100 ms apart; they arrive as fast as others end, a thousand at a time."""
    before = psutil.Process(pid).memory_info().rss
    slow = Load(STREAMS, rate=STREAMS / 6.5, warm_s=1.0, seconds=16.0, streams=True)
    figures = load.run(GATEWAY_PORT, _asked(SLOW, stream=True), slow, pid)
    after = psutil.Process(pid).memory_info().rss
    return figures | {"kib_a_stream": round((after - before) / 1024 / STREAMS, 1)}


def _growth(pid: int, minutes: float, rate: int) -> dict[str, Any]:
    """Resident MiB at the start, every half minute and at the end, under `rate` calls a second."""
    sizes = []
    for _ in range(max(1, round(minutes * 2))):
        sizes.append(round(load.rss_mb(pid), 1))
        load.run(GATEWAY_PORT, _asked("mock"), Load(32, rate=rate, warm_s=0.0, seconds=30.0), pid)
    sizes.append(round(load.rss_mb(pid), 1))
    return {"mib": sizes, "mib_a_minute_second_half": _slope(sizes[len(sizes) // 2 :])}


def _slope(sizes: list[float]) -> float:
    return round((sizes[-1] - sizes[0]) / max(1, len(sizes) - 1) * 2, 2)


def _asked(model: str, *, stream: bool = False) -> bytes:
    return load.request(API_KEY, model, stream=stream)


def _say(name: str, figures: dict[str, Any]) -> None:
    print(f"{name}: {json.dumps(figures)}", flush=True)


if __name__ == "__main__":
    main()
