"""What the gateway needs to run by itself: Redis, the ledger, and models that other servers serve.

No Ray and no supervisor, so that one process can be pinned to one core and measured alone; every
step of a call is on: key, limits of three scopes, held money, spool, usage record.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from gateway.supervisor.redis_server import redis_part

ROOT = Path(__file__).parent.parent.parent
GATEWAY_CORE, OTHER_CORE = "0", "1"
API_KEY = "sk-sluice-" + "b" * 40
ADMIN_KEY = "sk-sluice-admin-" + "b" * 40
START_S = 60.0
LIMITS = {
    "requests_per_minute": 100_000_000,
    "tokens_per_minute": 1_000_000_000_000,
    "concurrency": 100_000,
}
SCOPES = (f"key:{KEY_ID}", f"project:{PROJECT_ID}", f"org:{ORGANIZATION_ID}")


def config(upstream_port: int, names: Sequence[str]) -> str:
    """A settings file: each name a model of its own with one pool of the same name."""
    return "[gateway]\ncalls_max = 20000\n" + "".join(
        f"""
[[models]]
name = "{name}"
context_tokens = 32768
max_output_tokens = 4096
size_rank = 1
quality = 0.5

[[pools]]
name = "{name}"
model = "{name}"
capacity_class = "external"
upstream_model = "{name}"
base_url = "http://127.0.0.1:{upstream_port}/v1"
cost_input_usd_per_mtok = "0.10"
cost_output_usd_per_mtok = "0.20"

[[prices]]
model = "{name}"
tier = "default"
input_usd_per_mtok = "0.25"
cached_input_usd_per_mtok = "0.0625"
output_usd_per_mtok = "1"
"""
        for name in names
    )


class Stack:
    """Redis and ledger on the other core while the block runs; gateways are started in it."""

    def __init__(
        self,
        data: Path,
        port: int,
        upstream_port: int,
        names: Sequence[str] = ("mock", "mock-5ms"),
        settings: str | None = None,
    ) -> None:
        """`settings` is a settings file of another shape, with a model `mock` too."""
        self.data = data
        self.port = port
        self._config = data / "front.toml"
        self._config.write_text(settings or config(upstream_port, names))
        self.start_s = 0.0
        self._parts: list[subprocess.Popen[bytes]] = []
        self.environment = os.environ | {
            "SLUICE_ADMIN_KEY": ADMIN_KEY,
            "SLUICE_API_KEY": API_KEY,
            "SLUICE_WORKER_SECRET": "unused",
        }

    def __enter__(self) -> Stack:
        spec, url = redis_part(self.data)
        self.environment |= {
            "SLUICE_DATA": str(self.data),
            "SLUICE_CONFIG": str(self._config),
            "SLUICE_REDIS_URL": url,
            "SLUICE_SQL_URL": f"sqlite:///{self.data / 'sluice.db'}",
        }
        subprocess.run(
            [sys.executable, "-m", "gateway.cli", "migrate"], cwd=ROOT, env=self.environment
        ).check_returncode()
        self._start("redis", OTHER_CORE, *spec.argv)
        self._start("ledger", OTHER_CORE, sys.executable, "-m", "billing")
        return self

    @property
    def ledger_pid(self) -> int:
        """Of the second part that is started (`taskset` becomes it)."""
        return self._parts[1].pid

    def __exit__(self, *raised: object) -> None:
        for part in reversed(self._parts):
            end(part)

    @contextmanager
    def gateway(self) -> Iterator[subprocess.Popen[bytes]]:
        """One gateway on its own core, taking calls."""
        started_s = time.monotonic()
        process = self._start("gateway", GATEWAY_CORE, sys.executable, "-m", "gateway")
        try:
            self._wait_listens(process)
            self.start_s = time.monotonic() - started_s
            self.wait_takes_calls()
            self._limit()
            yield process
        finally:
            end(process)
            self._parts.remove(process)

    def _start(self, name: str, core: str, *argv: str) -> subprocess.Popen[bytes]:
        with (self.data / f"{name}.log").open("ab") as log:
            environment = self.environment | {"SLUICE_GATEWAY__PORT": str(self.port)}
            self._parts.append(
                subprocess.Popen(
                    ["taskset", "-c", core, *argv],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )
        return self._parts[-1]

    def _wait_listens(self, process: subprocess.Popen[bytes]) -> None:
        """Until it accepts connections, which is when it says `ready gateway`."""
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.005)
        raise RuntimeError(f"the gateway ended, see {self.data}/*.log")

    def wait_takes_calls(self) -> None:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            try:
                self.call("/v1/chat/completions", API_KEY, ASKED)
                return
            except (URLError, OSError):
                time.sleep(0.01)
        raise RuntimeError(f"the gateway takes no calls, see {self.data}/*.log")

    def _limit(self) -> None:
        """Every limit of every scope is set, so high that it never refuses."""
        for scope in SCOPES:
            self.call(f"/admin/v1/limits/{scope}", ADMIN_KEY, LIMITS, method="PUT")
            budget = {"limit_usd": "1000000", "window": "month"}
            self.call(f"/admin/v1/budgets/{scope}", ADMIN_KEY, budget, method="PUT")
        time.sleep(1.5)

    def call(self, path: str, key: str, body: object, method: str = "POST") -> Any:
        request = Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=json.dumps(body).encode(),
            method=method,
            headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
        )
        with urlopen(request, timeout=5) as answer:
            return json.load(answer)


ASKED = {"model": "mock", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64}


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
