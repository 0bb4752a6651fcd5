"""A variant with weights of its own on the running stack."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.journeys.calls import CHAT, body
from tests.journeys.test_models_apply import DECLARATION, MODEL, POOL, TOKENS, Desk, desk
from tests.stack import Stack

__all__ = ["desk"]
pytestmark = pytest.mark.timeout(480)


def test_variant_with_a_checkpoint_of_its_own_answers_from_a_live_replica(desk: Desk) -> None:
    """The weights of its model, rounded coarsely: other words for the same prompt, which both
    count alike."""
    model, pool, stack = f"{MODEL}-coarse", f"{POOL}-coarse", desk.stack
    put_rounded(desk.weights, desk.folder / "rounded")
    variant = f"""
[[variants]]
model = "{model}"
name = "coarse"
quantization = "int4"
path = "rounded"
"""
    text = DECLARATION.replace(f'"{MODEL}"', f'"{model}"').replace(f'"{POOL}"', f'"{pool}"')
    done = desk.apply(text.replace("idle_s", 'variant = "coarse"\nidle_s') + variant)
    assert done.returncode == 0, done.stderr
    try:
        desk.wait(lambda: stack.replicas(pool, "WARM"), "the variant's pool to be warm", 120.0)
        desk.wait(lambda: stack.call("GET", f"/v1/models/{model}").status_code == 200, "the model")
        row = stack.admin("GET", f"/variants/{model}/coarse")
        assert row["path"].endswith(row["checksum"]) and row["shape"]["layers"] == 3
        exact, coarse = (answer_of(stack, name) for name in (MODEL, model))
        assert exact["usage"]["prompt_tokens"] == coarse["usage"]["prompt_tokens"]
        assert exact["choices"][0]["message"] != coarse["choices"][0]["message"]
    finally:
        for path in (f"/pools/{pool}", f"/variants/{model}/coarse", f"/models/{model}"):
            stack.admin("DELETE", path)


def put_rounded(weights: Path, folder: Path) -> None:
    """Each tensor in fifteen steps."""
    shutil.copytree(weights, folder)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        step = float(np.abs(tensor).max()) / 7
        tensors[name] = (np.round(tensor.astype(np.float32) / step) * step).astype(tensor.dtype)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def answer_of(stack: Stack, model: str) -> Any:
    asked = body(model=model, temperature=0, max_tokens=TOKENS, stream=False)
    return stack.call("POST", CHAT, json=asked).raise_for_status().json()
