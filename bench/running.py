"""A whole Sluice for a benchmark: `sluice up` on a folder of its own, timed from its start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil

ROOT = Path(__file__).parent.parent
QUESTION = [{"role": "user", "content": "Tell me a story about a fox."}]
READY_S = 240.0


class Running:
    """`with Running(folder) as sluice:`; `overrides` are SLUICE_... variables."""

    def __init__(
        self, data: Path, port: int = 18_080, config: Path | None = None, **overrides: str
    ) -> None:
        self.data = data
        self._port = port
        self._config = config or ROOT / "sluice.toml"
        self._overrides = overrides
        self._up: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Running:
        self.started = time.perf_counter()
        (self.data / "ready.json").unlink(missing_ok=True)
        self._up = subprocess.Popen(
            self._command(),
            cwd=ROOT,
            env=os.environ | self._overrides,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not (self.data / "ready.json").exists():
            if self._up.poll() is not None or time.perf_counter() - self.started > READY_S:
                raise RuntimeError("sluice up did not become ready")
            time.sleep(0.05)
        self.ready_s = time.perf_counter() - self.started
        self.ready: dict[str, Any] = json.loads((self.data / "ready.json").read_bytes())
        self.http = httpx.Client(timeout=120.0)
        return self

    def _command(self) -> list[str]:
        where = ["--data", str(self.data), "--config", str(self._config)]
        return [sys.executable, "-m", "gateway.cli", "up", *where, "--port", str(self._port)]

    def __exit__(self, *raised: object) -> None:
        assert self._up is not None
        self._up.send_signal(signal.SIGINT)
        self._up.wait(60)

    @property
    def base_url(self) -> str:
        return str(self.ready["base_url"])

    @property
    def tenant_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.ready['api_key']}"}

    @property
    def worker_headers(self) -> dict[str, str]:
        secret = json.loads((self.data / "secrets.json").read_bytes())["worker_secret"]
        return {"x-sluice-worker-secret": secret}

    def ask(self, model: str, tokens_max: int = 1, **fields: Any) -> httpx.Response:
        """One whole answer through the gateway."""
        body = {"model": model, "messages": QUESTION, "max_tokens": tokens_max, **fields}
        return self.http.post(
            f"{self.base_url}/v1/chat/completions", headers=self.tenant_headers, json=body
        ).raise_for_status()

    def pool(self, name: str) -> dict[str, Any]:
        return next(pool for pool in self._pools() if pool["name"] == name)

    def has_pool(self, name: str) -> bool:
        return any(pool["name"] == name for pool in self._pools())

    def _pools(self) -> list[dict[str, Any]]:
        headers = {"authorization": f"Bearer {self.ready['admin_key']}"}
        fleet = self.http.get(f"{self.base_url}/admin/v1/fleet", headers=headers).json()
        pools: list[dict[str, Any]] = fleet["pools"]
        return pools

    def warm_address(self, pool: str) -> str:
        warm = [r for r in self.pool(pool)["replicas"] if r["state"] == "WARM"]
        return str(warm[0]["address"])

    def memory_mb(self) -> dict[str, float]:
        """Unshared memory (USS) by part, in MB; the Ray cluster by the kind of process."""
        assert self._up is not None
        found: dict[str, float] = {"supervisor": _uss_mb(psutil.Process(self._up.pid))}
        for part, pid in self.ready["pids"].items():
            found[part] = _uss_mb(psutil.Process(pid))
        sid = json.loads((self.data / "ray.json").read_bytes())["session"]["sid"]
        for process in psutil.process_iter(["pid", "name", "cmdline"]):
            if _session_of(process.pid) == sid:
                kind = _ray_kind(process.info["cmdline"] or [process.info["name"]])
                found[kind] = found.get(kind, 0.0) + _uss_mb(process)
        return {name: round(size) for name, size in found.items()}


def new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="slb-", dir="/tmp"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _uss_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().uss) / 1e6
    except psutil.Error:
        return 0.0


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def _ray_kind(cmdline: list[str]) -> str:
    first = " ".join(cmdline)
    if first.startswith("ray::"):
        return first.split()[0]
    for name in ("gcs_server", "raylet", "dashboard", "monitor", "agent", "workers.ray.launch"):
        if name in first:
            return f"ray: {name}"
    return "ray: other"
