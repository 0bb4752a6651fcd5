"""A model on a GPU that is not there, on the running stack: declared, called whole and streamed,
billed to the token, and named as simulated wherever it is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.journeys.calls import CHAT, body, nano, streamed
from tests.journeys.test_models_apply import Desk
from tests.simulated_model import simulated_model
from tests.stack import Stack, Tenant

MODEL, POOL = "played", "played-h100"
USD_IN, USD_OUT = 10, 20
DECLARATION = f"""{simulated_model(MODEL, context_tokens=2048)}
[[pools]]
name = "{POOL}"
model = "{MODEL}"
variant = "fp16"
engine = "simulated"
hardware = "h100"
speed = 10.0
initial_replicas = 1
idle_s = 900.0
num_cpus = 0.1

[[prices]]
model = "{MODEL}"
input_usd_per_mtok = "{USD_IN}"
output_usd_per_mtok = "{USD_OUT}"
"""
pytestmark = pytest.mark.timeout(480)


def test_a_simulated_model_is_called_billed_and_named(
    stack: Stack, tenant: Tenant, tmp_path: Path
) -> None:
    desk = Desk(stack, tmp_path)
    done = desk.apply(DECLARATION)
    assert done.returncode == 0, done.stderr
    try:
        desk.wait(lambda: stack.replicas(POOL, "WARM"), "the simulated pool to be warm", 120.0)
        desk.wait(lambda: stack.call("GET", f"/v1/models/{MODEL}").status_code == 200, "the model")
        assert stack.call("GET", f"/v1/models/{MODEL}").json()["simulated"] is True
        is_called_whole_and_streamed_alike(stack, tenant)
        refuses_what_it_cannot_answer(stack, tenant)
        is_billed_as_simulated(stack, tenant)
        refuses_a_real_pool_beside_it(desk)
        said = stack.call("GET", "/metrics", secret=stack.ready["admin_key"]).text
        assert f'model="{MODEL}",pool="{POOL}",simulated="true"' in said.replace(", ", ",")
    finally:
        for path in (f"/pools/{POOL}", f"/variants/{MODEL}/fp16", f"/models/{MODEL}"):
            stack.admin("DELETE", path)


def is_called_whole_and_streamed_alike(stack: Stack, tenant: Tenant) -> None:
    asked = body(MODEL, seed=7, max_tokens=40, n=2)
    whole = stack.call("POST", CHAT, secret=tenant.secret, json=asked).raise_for_status()
    answer = whole.json()
    assert whole.headers["x-sluice-simulated"] == "true"
    assert answer["sluice"] == {"simulated": True}
    assert answer["usage"]["completion_tokens"] <= 80
    *events, done = streamed(stack, tenant, asked | {"stream": True})
    assert done == "[DONE]"
    chunks = [json.loads(event) for event in events if event.startswith("{")]
    assert chunks[0]["sluice"]["simulated"] is True
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    for choice in answer["choices"]:
        pieces = [c["delta"].get("content") or "" for c in choices if c["index"] == choice["index"]]
        assert "".join(pieces) == choice["message"]["content"] != ""


def refuses_what_it_cannot_answer(stack: Stack, tenant: Tenant) -> None:
    for field, value in {"logprobs": True, "presence_penalty": 0.5}.items():
        asked = body(MODEL, max_tokens=4) | {field: value}
        refused = stack.call("POST", CHAT, secret=tenant.secret, json=asked)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (400, "unsupported_parameter"), error
        assert error["param"] == field


def is_billed_as_simulated(stack: Stack, tenant: Tenant) -> None:
    def booked() -> list[dict[str, object]]:
        rows = stack.requests_of(tenant)
        return rows if len([row for row in rows if row["status"] == "answered"]) == 2 else []

    rows = stack.wait_until(booked, 60, "both calls in the ledger")
    answered = [row for row in rows if row["status"] == "answered"]
    assert {row["simulated"] for row in answered} == {True}
    tokens = {part: sum(row["usage"][part] for row in answered) for part in ("input", "output")}
    owed = tokens["input"] * USD_IN * 1000 + tokens["output"] * USD_OUT * 1000
    assert sum(nano(row["cost_usd"]) for row in answered) == owed
    status, run = stack.invoices(answered[0]["created_at"][:7])
    assert status == 0
    [invoice] = [i for i in run["invoices"] if i["organization"] == tenant.organization]
    usage = [line for line in invoice["lines"] if line["kind"] == "usage"]
    assert {(line["model"], line["simulated"]) for line in usage} == {(MODEL, True)}
    assert sum(nano(line["amount_usd"]) for line in usage) == owed


def refuses_a_real_pool_beside_it(desk: Desk) -> None:
    real = f'[[pools]]\nname = "{MODEL}-real"\nmodel = "{MODEL}"\nvariant = "fp16"\n'
    refused = desk.apply(real)
    assert refused.returncode == 1
    assert f"pools.0.engine: {MODEL} has simulated pools" in refused.stderr
