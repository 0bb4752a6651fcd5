"""`sluice models apply` on the running stack: a model is added, its weights are replaced under
traffic, broken ones are not served, and a wrong file changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.journeys.calls import CHAT, body, chunks_of, nano, streamed
from tests.stack import Stack, Tenant
from tests.stack_config import ROOT

MODEL, POOL = "declared", "declared-reserved"
USD_IN, USD_OUT = 10, 20
LOOK_EVERY_S = 0.02
ASK_EVERY_S = 0.2
"""So that what starts meanwhile gets a part of a small machine."""
TOKENS = 24
pytestmark = pytest.mark.timeout(480)

DECLARATION = f"""
[[models]]
name = "{MODEL}"
path = "weights"
context_tokens = 512
size_rank = 0

[[pools]]
name = "{POOL}"
model = "{MODEL}"
initial_replicas = 1
idle_s = 900.0
num_cpus = 0.1
cost_usd_per_s = "0.000000001"

[[prices]]
model = "{MODEL}"
input_usd_per_mtok = "{USD_IN}"
output_usd_per_mtok = "{USD_OUT}"
"""


@dataclass
class Desk:
    """An administrator with a folder of weights and a models.toml beside it."""

    stack: Stack
    folder: Path

    @property
    def weights(self) -> Path:
        return self.folder / "weights"

    def apply(self, text: str = DECLARATION, *options: str) -> subprocess.CompletedProcess[str]:
        file = self.folder / "models.toml"
        file.write_text(text)
        return self.stack.sluice("models", "apply", str(file), *options)

    def put_weights(self, *, seed: int = 0) -> None:
        """Those of sluice-small, disturbed by a seed that is not 0."""
        shutil.copytree(ROOT / "models" / "sluice-small", self.weights, dirs_exist_ok=True)
        if not seed:
            return
        rng = np.random.default_rng(seed)
        tensors = load_file(self.weights / "model.safetensors")
        for name, tensor in tensors.items():
            noise = rng.standard_normal(tensor.shape) * tensor.std() * 0.5
            tensors[name] = (tensor + noise).astype(tensor.dtype)
        save_file(tensors, self.weights / "model.safetensors", metadata={"format": "pt"})

    def break_weights(self) -> None:
        """Whole safetensors of a model that this configuration is not."""
        tensors = {"strange": np.zeros((2, 2), np.float16)}
        save_file(tensors, self.weights / "model.safetensors", metadata={"format": "pt"})

    def published(self) -> dict[str, Any]:
        with self.stack.redis() as client:
            fleet = json.loads(client.get("sluice:fleet") or b'{"pools": []}')
        return next((pool for pool in fleet["pools"] if pool["name"] == POOL), {"replicas": []})

    def warm(self) -> list[str]:
        return [r["id"] for r in self.published()["replicas"] if r["state"] == "WARM"]

    def is_replaced(self, old: list[str]) -> bool:
        """Whether the old replicas have gone, and others are warm."""
        ids = [replica["id"] for replica in self.published()["replicas"]]
        return self.warm() == ids != [] and not set(old) & set(ids)

    def wait(self, holds: Callable[[], Any], what: str, timeout_s: float = 90.0) -> Any:
        return self.stack.wait_until(holds, timeout_s, lambda: f"{what}: {self.published()}")


@pytest.fixture(scope="module")
def desk(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = Desk(stack, tmp_path_factory.mktemp("declared"))
    desk.put_weights()
    done = desk.apply()
    assert done.returncode == 0, done.stderr
    desk.wait(desk.warm, "the declared pool to be warm")
    desk.wait(lambda: is_offered(stack), "the gateway to offer the model")
    yield desk
    stack.admin("DELETE", f"/pools/{POOL}")
    stack.admin("DELETE", f"/models/{MODEL}")
    stack.wait_until(lambda: POOL not in stack.fleet(), 60, "the pool to leave the fleet")


def is_offered(stack: Stack) -> bool:
    found = stack.call("GET", f"/v1/models/{MODEL}")
    return found.status_code == 200 and bool(found.json()["pricing"])


def answer(stack: Stack, tenant: Tenant) -> str:
    """What the model says to the one question, greedily."""
    response = stack.call("POST", CHAT, secret=tenant.secret, json=question())
    assert response.status_code == 200, response.text
    text: str = response.json()["choices"][0]["message"]["content"]
    return text


def question() -> dict[str, Any]:
    return body(MODEL, max_tokens=TOKENS, temperature=0)


@dataclass
class Traffic:
    """What came of calls all the time, and who was warm meanwhile."""

    answers: list[tuple[float, float, str]] = field(default_factory=list)
    streams: list[list[str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    warm: list[list[str]] = field(default_factory=list)


@contextmanager
def traffic(desk: Desk, tenant: Tenant) -> Iterator[Traffic]:
    """Two callers of whole answers and two of streams, and one who watches the fleet."""
    found, end = Traffic(), threading.Event()

    def ask() -> None:
        began_s = time.monotonic()
        text = answer(desk.stack, tenant)
        found.answers.append((began_s, time.monotonic(), text))
        end.wait(ASK_EVERY_S)

    def stream() -> None:
        found.streams.append(streamed(desk.stack, tenant, question() | {"max_tokens": 200}))
        end.wait(ASK_EVERY_S)

    def watch() -> None:
        found.warm.append(desk.warm())
        end.wait(LOOK_EVERY_S)

    def repeat(work: Callable[[], None]) -> None:
        while not end.is_set():
            try:
                work()
            except Exception as failed:
                found.failures.append(repr(failed))
                end.wait(0.2)

    threads = [
        threading.Thread(target=repeat, args=(w,)) for w in (ask, ask, stream, stream, watch)
    ]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        end.set()
        for thread in threads:
            thread.join()


def test_declared_model_serves_with_its_price_and_no_restart(
    desk: Desk, stack: Stack, tenant: Tenant
) -> None:
    pids = stack.pids()
    response = stack.call("POST", CHAT, secret=tenant.secret, json=question())
    assert response.status_code == 200, response.text
    assert response.headers["x-sluice-pool"] == POOL
    usage = response.json()["usage"]
    expected = usage["prompt_tokens"] * USD_IN * 1000 + usage["completion_tokens"] * USD_OUT * 1000
    booked = stack.generation(response.headers["x-request-id"])
    assert nano(booked["cost_usd"]) == expected
    assert stack.pids() == pids
    row = next(m for m in stack.admin("GET", "/models")["data"] if m["name"] == MODEL)
    assert Path(row["path"]) == stack.data / "weights" / row["checksum"]
    assert row["origin"] == str(desk.weights)
    stack.wait_until(lambda: MODEL in stack.ready["models"], 60, "ready.json to name it")


def test_same_declaration_again_changes_nothing(desk: Desk, stack: Stack) -> None:
    before = [*stack.admin("GET", "/models")["data"], *stack.admin("GET", "/pools")["data"]]
    warm, prices = desk.warm(), len(stack.admin("GET", "/prices")["data"])
    done = desk.apply(DECLARATION, "--verify")
    assert done.returncode == 0 and "nothing to do" in done.stdout, done
    document = {"models": [{"name": MODEL, "path": str(desk.weights), "context_tokens": 512}]}
    document["models"][0]["size_rank"] = 0
    applied = stack.admin("POST", "/models/apply", document)
    assert (applied["applied"], applied["changes"][0]["change"]) == (False, "unchanged")
    after = [*stack.admin("GET", "/models")["data"], *stack.admin("GET", "/pools")["data"]]
    assert (after, desk.warm()) == (before, warm)
    assert len(stack.admin("GET", "/prices")["data"]) == prices


def test_new_weights_replace_old_ones_under_traffic(
    desk: Desk, stack: Stack, tenant: Tenant, record_property: Callable[[str, object], None]
) -> None:
    [old_replica] = desk.warm()
    old = answer(stack, tenant)
    desk.put_weights(seed=7)
    with traffic(desk, tenant) as found:
        applied_s = time.monotonic()
        assert desk.apply().returncode == 0
        desk.wait(lambda: desk.warm() not in ([], [old_replica]), "the new replica")
        record_property("applied_until_replaced_s", time.monotonic() - applied_s)
        desk.wait(lambda: desk.is_replaced([old_replica]), "the old replica to go")
        gone_s = time.monotonic()
        desk.wait(lambda: any(began > gone_s for began, _, _ in found.answers), "a call after it")
    record_property("calls", len(found.answers) + len(found.streams))
    assert found.failures == []
    assert all(len(warm) == 1 for warm in found.warm), "never a moment without a warm replica"
    new = answer(stack, tenant)
    assert new != old
    assert {text for _, ended, text in found.answers if ended < applied_s} <= {old}
    assert {text for began, _, text in found.answers if began > gone_s} == {new}
    assert {text for _, _, text in found.answers} == {old, new}
    for events in found.streams:
        assert events[-1] == "[DONE]"
        reasons = [c["finish_reason"] for e in chunks_of(events) for c in e["choices"]]
        assert reasons[-1] in ("stop", "length")
    stack.wait_quiet()
    waited = [
        candidate["reason"]
        for call in stack.requests_of(tenant)
        for candidate in stack.generation(call["id"])["candidates"][:1]
        if "ready in about" in candidate["reason"]
    ]
    assert waited == [], "nobody waited for a cold start"


@pytest.mark.long
def test_broken_weights_leave_the_old_ones_serving(
    desk: Desk, stack: Stack, tenant: Tenant
) -> None:
    """`tests/workers/ray/test_cluster.py` always looks at this, with weights that load sooner."""
    replicas = desk.warm()
    good = answer(stack, tenant)
    desk.break_weights()
    assert desk.apply().returncode == 0, "nothing of it is wrong before it is loaded"
    told = desk.wait(
        lambda: "does not start" in (reason := desk.published()["reason"]) and reason, "the reason"
    )
    assert "the old replicas serve on" in told
    assert desk.warm() == replicas
    assert answer(stack, tenant) == good
    desk.put_weights(seed=8)
    assert desk.apply().returncode == 0
    desk.wait(lambda: desk.is_replaced(replicas), "the mended weights")
    assert answer(stack, tenant) != good


WRONG = {
    "a mistake in one table": (
        DECLARATION.replace("initial_replicas = 1", "initial = 1"),
        "pools.0",
    ),
    "weights that are not there": (DECLARATION.replace('"weights"', '"nowhere"'), "models.0.path"),
    "a pool without a price": (
        DECLARATION.split("[[prices]]")[0].replace(MODEL, "unpriced"),
        "models.0: unpriced has a pool and no price",
    ),
    "no TOML": ("[[models", "not valid TOML"),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_file_changes_nothing(desk: Desk, stack: Stack, text: str, words: str) -> None:
    lists = ("/models", "/pools", "/prices")
    before = [stack.admin("GET", path) for path in lists]
    weights = sorted(path.name for path in (stack.data / "weights").iterdir())
    done = desk.apply(text)
    assert done.returncode == 1
    assert "nothing was changed" in done.stderr and words in done.stderr
    assert [stack.admin("GET", path) for path in lists] == before
    assert sorted(path.name for path in (stack.data / "weights").iterdir()) == weights


def test_wrong_document_is_refused_with_every_place(stack: Stack) -> None:
    document = {"models": [{"name": "a b"}], "pools": [{"name": "p"}]}
    response = stack.admin_response("POST", "/models/apply", document)
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert "models.0.name" in message and "pools.0.model" in message
