"""The lines of a settings file for a model whose replicas are simulated: what it answers comes from
`sluice-small`, how long it takes from the roofline of 8 billion parameters at half precision."""

from __future__ import annotations

from tests.stack_config import ROOT


def simulated_model(
    name: str, *, context_tokens: int, max_output_tokens: int | None = None, size_rank: int = 0
) -> str:
    """The model and its variant `fp16`, for pools with `engine = "simulated"`."""
    most = "" if max_output_tokens is None else f"max_output_tokens = {max_output_tokens}\n"
    return f"""
[[models]]
name = "{name}"
path = "{ROOT / "models" / "sluice-small"}"
context_tokens = {context_tokens}
{most}size_rank = {size_rank}
quality = 0.5

[[variants]]
model = "{name}"
name = "fp16"
quantization = "fp16"
shape = {{params = 8030000000, layers = 32, heads = 32, kv_heads = 8, head_dim = 128}}
"""
