"""How long a whole Sluice refuses calls after a part was killed, and what callers are told.

`python -m bench.recovery [--repeats N] [--label TEXT] [PART ...]`: `sluice up` on a folder of its
own, a probe that sends a call of one token ten times a second, and SIGKILL for each part in turn,
by pid. Recovery is the time from the kill to the first answer to a call that was sent after it and
after the last refusal. A `retry-after` is kept if a call sent when it says would have been
answered. `--storm SECONDS` kills a part every 20 s instead, and tells the share of the probe's
calls that were answered. A JSON line for each kill goes to bench/raw/recovery.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil

from bench.running import QUESTION, Running, free_port, new_folder
from workers.ray.file import read_ray_file
from workers.ray.session import members

RAW = Path(__file__).parent / "raw" / "recovery.jsonl"
POOL = "small-reserved"
MODEL = "sluice-small"
OF_UP = ("gateway", "controller", "ledger", "redis", "workers")
OF_RAY = {
    "raylet": "raylet/raylet",
    "gcs": "gcs_server",
    "dashboard": "dashboard.py",
    "serve controller": "ray::ServeController",
}
PARTS = (*OF_RAY, "replica", *OF_UP)
EVERY_S = 0.1
DEADLINE_MS = 2_000
SETTLE_S = 3.0
"""So long everything must be well before the next kill."""
GIVE_UP_S = 120.0
STORM_EVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class Call:
    """Of the probe: seconds since the start of the run."""

    sent_s: float
    ended_s: float
    status: int
    retry_after_s: float | None = None
    code: str = ""


class Probe:
    """One call every `every_s`, whatever becomes of those before it."""

    def __init__(self, sluice: Running, *, every_s: float, deadline_ms: int | None) -> None:
        self._url = f"{sluice.base_url}/v1/chat/completions"
        self._headers = dict(sluice.tenant_headers)
        if deadline_ms is not None:
            self._headers["x-sluice-deadline-ms"] = str(deadline_ms)
        self._every_s = every_s
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._http = httpx.Client(timeout=130.0, limits=httpx.Limits(max_connections=None))
        self.calls: list[Call] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    def _run(self) -> None:
        asking: list[threading.Thread] = []
        while not self._stopping.wait(self._every_s):
            asking = [thread for thread in asking if thread.is_alive()]
            asking.append(threading.Thread(target=self._ask))
            asking[-1].start()
        for thread in asking:
            thread.join()

    def _ask(self) -> None:
        sent_s = self.now_s
        body = {"model": MODEL, "messages": QUESTION, "max_tokens": 1}
        try:
            answer = self._http.post(self._url, headers=self._headers, json=body)
        except httpx.HTTPError as broken:
            self.calls.append(Call(sent_s, self.now_s, 0, code=type(broken).__name__))
            return
        told = answer.headers.get("retry-after-ms")
        again_s = None if told is None else int(told) / 1000
        code = "" if answer.status_code == 200 else str(answer.json()["error"]["code"])
        self.calls.append(Call(sent_s, self.now_s, answer.status_code, again_s, code))


@dataclass(frozen=True, slots=True)
class Recovery:
    label: str
    part: str
    load: float
    recovered_s: float | None
    first_refused_s: float | None
    refused: int
    told: int
    kept: int
    codes: dict[str, int] = field(default_factory=dict)
    told_s: list[tuple[float, float]] = field(default_factory=list)


def main() -> None:
    asked = _arguments()
    data = new_folder()
    load = os.getloadavg()[0]
    print(f"load {load:.1f}, {data}", flush=True)
    try:
        with Running(data, free_port()) as sluice:
            print(f"ready in {sluice.ready_s:.1f} s", flush=True)
            if asked.storm:
                _keep(_storm(sluice, data, asked))
            else:
                _kill_each(sluice, data, asked)
    finally:
        if asked.keep:
            print(f"kept {data}")
        else:
            shutil.rmtree(data, ignore_errors=True)


def _keep(row: dict[str, Any]) -> None:
    with RAW.open("a") as raw:
        raw.write(json.dumps(row) + "\n")


def _kill_each(sluice: Running, data: Path, asked: argparse.Namespace) -> None:
    found: list[Recovery] = []
    for part in asked.parts or PARTS:
        for _ in range(asked.repeats):
            found.append(_recovery(sluice, data, part, asked.label))
            _keep(asdict(found[-1]))
            print(_line(found[-1]), flush=True)
        times = [r.recovered_s for r in found if r.part == part and r.recovered_s is not None]
        if times:
            print(f"{part}: median {statistics.median(times):.1f} s", flush=True)


def _recovery(sluice: Running, data: Path, part: str, label: str) -> Recovery:
    with Probe(sluice, every_s=EVERY_S, deadline_ms=DEADLINE_MS) as probe:
        _until(lambda: _well_for_s(probe) > SETTLE_S, probe)
        kill(sluice, data, part)
        killed_s = probe.now_s
        _until(lambda: probe.now_s - killed_s > SETTLE_S and _well_for_s(probe) > SETTLE_S, probe)
    after = [call for call in probe.calls if call.sent_s >= killed_s - DEADLINE_MS / 1000]
    refused = [call for call in after if call.status != 200 and call.ended_s >= killed_s]
    last_s = max((call.sent_s for call in refused), default=killed_s)
    well = [c.ended_s for c in after if c.status == 200 and c.sent_s > last_s]
    recovered_s = min(well, default=None)
    told = [c for c in refused if c.retry_after_s is not None]
    kept = [c for c in told if c.ended_s + (c.retry_after_s or 0) >= last_s]
    return Recovery(
        label=label,
        part=part,
        load=round(os.getloadavg()[0], 1),
        recovered_s=None if recovered_s is None else round(recovered_s - killed_s, 2),
        first_refused_s=round(min(c.ended_s for c in refused) - killed_s, 2) if refused else None,
        refused=len(refused),
        told=len(told),
        kept=len(kept),
        codes=_counted(f"{c.status} {c.code}" for c in refused),
        told_s=[(round(c.ended_s - killed_s, 1), c.retry_after_s or 0.0) for c in told],
    )


def _storm(sluice: Running, data: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """A fault every 20 s; callers may wait as long as the default deadline lets them."""
    rng = random.Random(asked.seed)
    parts = [*(asked.parts or PARTS)]
    kills: list[tuple[float, str]] = []
    with Probe(sluice, every_s=EVERY_S * 2, deadline_ms=asked.deadline_ms) as probe:
        while probe.now_s < asked.storm:
            time.sleep(STORM_EVERY_S)
            part = rng.choice(parts)
            kills.append((round(probe.now_s, 1), part))
            try:
                kill(sluice, data, part)
            except LookupError as absent:
                kills[-1] = (kills[-1][0], f"{part} (not there: {absent})")
            print(f"{probe.now_s:.0f} s: {kills[-1][1]}, {_share(probe.calls):.1%}", flush=True)
        time.sleep(STORM_EVERY_S)
    answered = [c for c in probe.calls if c.status == 200]
    result = {
        "label": asked.label,
        "storm_s": asked.storm,
        "seed": asked.seed,
        "deadline_ms": asked.deadline_ms,
        "load": round(os.getloadavg()[0], 1),
        "calls": len(probe.calls),
        "answered": len(answered),
        "availability": round(_share(probe.calls), 4),
        "within_5_s": round(
            sum(c.ended_s - c.sent_s < 5.0 for c in answered) / len(probe.calls), 4
        ),
        "codes": _counted(f"{c.status} {c.code}" for c in probe.calls if c.status != 200),
        "kills": kills,
    }
    print(json.dumps(result), flush=True)
    return result


def kill(sluice: Running, data: Path, part: str) -> int:
    """SIGKILL for the process of a part; raises LookupError if there is none."""
    pid = _pid(sluice, data, part)
    os.kill(pid, signal.SIGKILL)
    return pid


def _pid(sluice: Running, data: Path, part: str) -> int:
    if part in OF_UP:
        pids: dict[str, int] = json.loads((data / "ready.json").read_bytes())["pids"]
        if part not in pids:
            raise LookupError(part)
        return pids[part]
    place = read_ray_file(data / "ray.json")
    if part == "replica":
        return _listener(int(sluice.warm_address(POOL).split(":")[2].split("/")[0]))
    for process in members(place.session) if place else []:
        try:
            if OF_RAY[part] in " ".join(process.cmdline()):
                return process.pid
        except psutil.Error:
            continue
    raise LookupError(part)


def _listener(port: int) -> int:
    for socket in psutil.net_connections("tcp"):
        if socket.status == psutil.CONN_LISTEN and socket.laddr.port == port and socket.pid:
            return socket.pid
    raise LookupError(f"nobody listens on {port}")


def _until(holds: Callable[[], bool], probe: Probe) -> None:
    due_s = probe.now_s + GIVE_UP_S
    while not holds() and probe.now_s < due_s:
        time.sleep(0.05)


def _well_for_s(probe: Probe) -> float:
    """For how long every call was answered."""
    calls = sorted(probe.calls, key=lambda call: call.sent_s)
    bad = [call.sent_s for call in calls if call.status != 200]
    good = [
        call.sent_s for call in calls if call.status == 200 and call.sent_s > max(bad, default=0.0)
    ]
    return probe.now_s - min(good) if good else 0.0


def _share(calls: Sequence[Call]) -> float:
    return sum(call.status == 200 for call in calls) / max(1, len(calls))


def _counted(words: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return found


def _line(recovery: Recovery) -> str:
    return (
        f"{recovery.part}: {recovery.recovered_s} s (load {recovery.load}), refused"
        f" {recovery.refused} from {recovery.first_refused_s} s on, retry-after kept"
        f" {recovery.kept} of {recovery.told}, {recovery.codes}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--label", default="")
    parser.add_argument("--storm", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline-ms", type=int, default=None)
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
