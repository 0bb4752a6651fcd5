"""The whole real stack for tests: `sluice up` as a process, on free ports and a folder of its own.

Owns starting, looking inside, breaking and stopping; every wait has a bound. Knows no law: what
must hold stands in the tests. Nothing here replaces a part.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx2 as httpx
import openai
import psutil
import redis

from billing.limits import keys
from tests.nursery import sluice
from tests.openai_api.held import held, held_async
from tests.plain_http import NOBODY
from tests.stack_config import ROOT, config_text
from tests.stack_gauges import Gauges, read_gauges, unbooked_shards
from tests.stack_process import environment, free_port, named, stop_with_parent
from workers.ray.file import read_ray_file
from workers.ray.session import Session, end_session, members, session_of

T = TypeVar("T")
READY_S = 150.0
STOP_S = 60.0
PATIENCE_S = 150.0
"""Of an answer: longer than a call of tier default may wait for a replica to start."""
LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Tenant:
    organization: str
    project: str
    key: str
    secret: str

    @property
    def scopes(self) -> list[str]:
        return [f"key:{self.key}", f"project:{self.project}", f"org:{self.organization}"]


class Stack:
    """Start once, share, stop. A context manager; `options` are those of `sluice up`."""

    def __init__(self, config: str | None = None, *options: str) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="slt-"))
        self.port = free_port()
        self.config = self.data / "stack.toml"
        self.config.write_text(config or config_text())
        self._options = options
        self._up: subprocess.Popen[bytes] | None = None
        hooks = {"response": [held]}
        self.http = httpx.Client(verify=NOBODY, timeout=PATIENCE_S, event_hooks=hooks)
        self._tenants = 0

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run `sluice up` and wait until it says that a tenant can call."""
        with self.log.open("ab") as output:
            self._up = subprocess.Popen(
                self.command("up", "--port", str(self.port), *self._options),
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=stop_with_parent,
            )
        self.wait_until(self._is_ready, READY_S, "ready.json")

    def stop(self) -> list[str]:
        """End `sluice up` as Ctrl-C does; answers what it left running, which is ended too."""
        sessions = self._sessions()
        if self._up is not None and self._up.poll() is None:
            self._up.send_signal(signal.SIGCONT)
            self._up.send_signal(signal.SIGINT)
            try:
                self._up.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._up.kill()
                self._up.wait(STOP_S)
        self.http.close()
        left = [named(process) for session in sessions for process in members(session)]
        for session in sessions:
            end_session(session, grace_s=1.0)
        shutil.rmtree(self.data, ignore_errors=True)
        return left

    def __enter__(self) -> Stack:
        try:
            self.start()
        except BaseException as failed:
            words = self.log.read_text(errors="replace")[-3000:]
            self.stop()
            raise RuntimeError(f"the stack did not start:\n{words}") from failed
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "gateway.cli", *words, *self._where]

    @property
    def _where(self) -> list[str]:
        return ["--data", str(self.data), "--config", str(self.config)]

    def _is_ready(self) -> bool:
        assert self._up is not None
        if self._up.poll() is not None:
            raise RuntimeError(f"`sluice up` ended with {self._up.returncode}")
        return (self.data / "ready.json").exists()

    @property
    def log(self) -> Path:
        return self.data / "up.log"

    # --- callers ---------------------------------------------------------------------------------

    @property
    def ready(self) -> dict[str, Any]:
        """ready.json as it is now."""
        found: dict[str, Any] = json.loads((self.data / "ready.json").read_bytes())
        return found

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def openai(self, secret: str | None = None, **options: Any) -> openai.OpenAI:
        """The official client, without its retries; with the key of `up` unless told another."""
        http = openai.DefaultHttpxClient(verify=NOBODY, event_hooks={"response": [held]})
        return openai.OpenAI(**self._client_options(secret, {"http_client": http} | options))

    def async_openai(self, secret: str | None = None, **options: Any) -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(verify=NOBODY, event_hooks={"response": [held_async]})
        return openai.AsyncOpenAI(**self._client_options(secret, {"http_client": http} | options))

    def _client_options(self, secret: str | None, options: dict[str, Any]) -> dict[str, Any]:
        defaults = {"max_retries": 0, "timeout": PATIENCE_S}
        api_key = secret or self.ready["api_key"]
        return {"base_url": f"{self.base_url}/v1", "api_key": api_key, **defaults, **options}

    def call(
        self, method: str, path: str, *, secret: str | None = None, **options: Any
    ) -> httpx.Response:
        """One plain HTTP request as a tenant."""
        headers = {"authorization": f"Bearer {secret or self.ready['api_key']}"}
        headers |= options.pop("headers", {})
        return self.http.request(method, f"{self.base_url}{path}", headers=headers, **options)

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """The JSON answer of `/admin/v1<path>`; raises httpx.HTTPStatusError for 4xx and 5xx."""
        response = self.admin_response(method, path, body)
        response.raise_for_status()
        return response.json()

    def admin_response(self, method: str, path: str, body: object = None) -> httpx.Response:
        return self.http.request(
            method,
            f"{self.base_url}/admin/v1{path}",
            headers={"authorization": f"Bearer {self.ready['admin_key']}"},
            json=body,
        )

    def tenant(
        self, *, budget_usd: str | None = None, window: str = "total", **limits: int
    ) -> Tenant:
        """A new organization with a project and a key; limits and budget are the key's."""
        self._tenants += 1
        slug = f"t{os.getpid()}-{self._tenants}"
        organization = self.admin("POST", "/organizations", {"name": slug, "slug": slug})["id"]
        project = self.admin("POST", "/projects", {"organization": organization, "name": slug})
        key = self.admin("POST", "/keys", {"project": project["id"], "name": slug})
        if limits:
            self.admin("PUT", f"/limits/key:{key['id']}", limits)
        if budget_usd is not None:
            budget = {"limit_usd": budget_usd, "window": window}
            self.admin("PUT", f"/budgets/key:{key['id']}", budget)
        return Tenant(organization, project["id"], key["id"], key["secret"])

    def add_prices(
        self, model: str, usd_per_mtok: Mapping[str, str], tier: str = "default"
    ) -> None:
        """A version of the price book with these rates in it too, once the gateway has it."""
        now = datetime.now(UTC).isoformat()
        versions = self.admin("GET", "/prices")["data"]
        begun = [v for v in versions if v["effective_from"] and v["effective_from"] <= now]
        rates = max(begun, key=lambda version: version["effective_from"])["rates"]
        ours = [
            {"model": model, "tier": tier, "component": component, "usd_per_mtok": usd}
            for component, usd in usd_per_mtok.items()
        ]
        others = [rate for rate in rates if (rate["model"], rate["tier"]) != (model, tier)]
        self.admin("POST", "/prices", {"rates": others + ours, "note": f"with {model}"})
        self.wait_until(lambda: self._is_priced(model, tier), 60.0, f"{model} to have a price")

    def _is_priced(self, model: str, tier: str) -> bool:
        found = self.call("GET", f"/v1/models/{model}")
        return found.status_code == 200 and tier in found.json()["pricing"]

    # --- looking inside --------------------------------------------------------------------------

    def redis(self) -> redis.Redis:
        """The stack's own Redis, blocking."""
        return redis.Redis(unix_socket_path=str(self.data / "redis.sock"))

    def fleet(self) -> dict[str, Any]:
        """Pools by name, as the gateway has them."""
        return {pool["name"]: pool for pool in self.admin("GET", "/fleet")["pools"]}

    def replicas(self, pool: str, state: str | None = None) -> list[dict[str, Any]]:
        found = self.fleet().get(pool, {}).get("replicas", [])
        return [r for r in found if state is None or r["state"] == state]

    def wake(self, *pools: str, model: str = "sluice-small") -> None:
        """Each of the model's pools has a warm replica, by a call that only it may answer."""
        for pool in pools:
            body = {
                "model": model,
                "messages": [{"role": "user", "content": "Wake up."}],
                "max_tokens": 1,
                "provider": {"only": [f"pool:{pool}"]},
            }
            self.call("POST", "/v1/chat/completions", json=body).raise_for_status()
            self.wait_until(lambda pool=pool: self.replicas(pool, "WARM"), 60, pool)

    def replica_stats(self, pool: str) -> list[dict[str, Any]]:
        """What each WARM replica of the pool says of itself."""
        return [self.stats_of(replica) for replica in self.replicas(pool, "WARM")]

    def stats_of(self, replica: dict[str, Any]) -> dict[str, Any]:
        secret = json.loads((self.data / "secrets.json").read_bytes())["worker_secret"]
        url, headers = f"{replica['address']}/v1/sluice/stats", {"x-sluice-worker-secret": secret}
        stats: dict[str, Any] = self.http.get(url, headers=headers).raise_for_status().json()
        return stats

    def gauges(self) -> Gauges:
        return read_gauges(self)

    def wait_quiet(self, timeout_s: float = 60.0) -> None:
        """Until nothing is taken any more; fails with the gauges that are not zero."""
        self.wait_until(lambda: self.gauges().are_zero, timeout_s, self.gauges)

    def wait_booked(self, timeout_s: float = 60.0) -> None:
        """Until nothing is taken any more and the ledger has all that was used."""
        self.wait_quiet(timeout_s)
        self.wait_until(lambda: not unbooked_shards(self), timeout_s, lambda: unbooked_shards(self))

    def generation(self, request_id: str) -> dict[str, Any]:
        """What the ledger has of a call, waiting for it; for any tenant."""

        def look() -> dict[str, Any] | None:
            response = self.admin_response("GET", f"/requests/{request_id}")
            return response.json() if response.status_code == 200 else None

        found: dict[str, Any] = self.wait_until(look, 60.0, f"the ledger to know {request_id}")
        return found

    def requests_of(self, tenant: Tenant) -> list[dict[str, Any]]:
        """The tenant's calls that the ledger has, newest first."""
        path = f"/requests?organization={tenant.organization}&limit=1000"
        found: list[dict[str, Any]] = self.admin("GET", path)["data"]
        return found

    def ledger_verify(self) -> tuple[int, dict[str, Any]]:
        """Exit status and report of `sluice ledger verify --json`."""
        return self.run_json("ledger", "verify", "--json")

    def invoices(self, period: str) -> tuple[int, Any]:
        """Exit status and document of `sluice invoice run`."""
        return self.run_json("invoice", "run", "--period", period)

    def sluice(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that ends, on the data of this stack."""
        return sluice(*words, *self._where, env=environment())

    def run_json(self, *words: str) -> tuple[int, Any]:
        done = self.sluice(*words)
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError as broken:
            raise AssertionError(f"{words}: {done.stdout!r} {done.stderr!r}") from broken

    def wait_until(self, look: Callable[[], T], timeout_s: float, what: object = "it") -> T:
        """The first true answer of `look`; a part that is away is looked at again."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(httpx.TransportError, redis.exceptions.ConnectionError):
                if found := look():
                    return found
            if time.monotonic() > deadline:
                told = what() if callable(what) else what
                raise AssertionError(f"waited {timeout_s:g} s in vain for {told}")
            time.sleep(LOOK_EVERY_S)

    # --- breaking it -----------------------------------------------------------------------------

    def pids(self) -> dict[str, int]:
        """Of the parts: redis, workers, ledger, controller, gateway."""
        return dict(self.ready["pids"])

    def kill9(self, part: str) -> int:
        """End a part as the kernel would; answers the pid it had. The supervisor restarts it."""
        pid = self.pids()[part]
        os.kill(pid, signal.SIGKILL)
        return pid

    def replica_pid(self, pool: str) -> int:
        """The process behind the pool's first warm replica."""
        address = self.replicas(pool, "WARM")[0]["address"]
        port = int(address.split("/")[2].rsplit(":", 1)[1])
        return next(pid for pid, laddr in self.listening() if laddr.port == port)

    def pause(self, part: str) -> None:
        os.kill(self.pids()[part], signal.SIGSTOP)

    def resume(self, part: str) -> None:
        os.kill(self.pids()[part], signal.SIGCONT)

    @contextmanager
    def paused(self, part: str) -> Iterator[None]:
        """The part stands still while the block runs."""
        self.pause(part)
        try:
            yield
        finally:
            self.resume(part)

    @contextmanager
    def supervisor_paused(self) -> Iterator[None]:
        """While the block runs, a killed part stays down."""
        assert self._up is not None
        self._up.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._up.send_signal(signal.SIGCONT)

    def wait_restarted(self, part: str, old_pid: int, timeout_s: float = 120.0) -> None:
        """Until the supervisor runs another process as this part and the gateway takes calls."""
        self.wait_until(
            lambda: self.pids().get(part, old_pid) != old_pid, timeout_s, f"{part} to be restarted"
        )
        self.wait_takes_calls(timeout_s)

    def wait_takes_calls(self, timeout_s: float = 120.0) -> None:
        """Until the gateway is ready and every shard is open for paid traffic."""
        self.wait_until(
            lambda: self.call("GET", "/readyz").status_code == 200 and self._all_open(),
            timeout_s,
            "the gateway to take calls",
        )

    def _all_open(self) -> bool:
        with self.redis() as client:
            found = client.mget([keys.epoch_key(shard) for shard in range(keys.SHARDS)])
            run_id = client.info("server")["run_id"]
        return all(
            epoch and epoch.startswith(f"{keys.LAYOUT}:open:{run_id}".encode()) for epoch in found
        )

    # --- its processes ---------------------------------------------------------------------------

    def processes(self) -> list[psutil.Process]:
        """The supervisor and everything below it, Ray's own processes included."""
        return [process for session in self._sessions() for process in members(session)]

    def listening(self) -> list[tuple[int, Any]]:
        """Every TCP socket that a process of the stack listens on: pid and address."""
        found = []
        for process in self.processes():
            with suppress(psutil.Error):
                found += [
                    (process.pid, connection.laddr)
                    for connection in process.net_connections("tcp")
                    if connection.status == psutil.CONN_LISTEN
                ]
        return found

    def _sessions(self) -> list[Session]:
        leaders = [self._up.pid] if self._up is not None else []
        with suppress(FileNotFoundError):
            leaders += self.pids().values()
        sessions = []
        for pid in leaders:
            with suppress(psutil.NoSuchProcess):
                sessions.append(session_of(pid))
        ray = read_ray_file(self.data / "ray.json")
        return [*sessions, ray.session] if ray is not None else sessions
