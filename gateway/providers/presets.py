"""What is known of servers that speak OpenAI's API, by their names: what a pool of one leaves out
is filled in. Pure.

How long a provider keeps prompts, and where it runs, is a matter of each contract: no preset says
it, so `retention_days`, `trains` and `region` stay unknown until an operator does.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from gateway.catalog.external import KEY_PREFIX

PresetName = Literal["vllm", "sglang", "trtllm-serve", "gmi", "openrouter", "together", "fireworks"]


def _hosted(name: str, base_url: str, *extra_fields: str) -> dict[str, Any]:
    return {
        "base_url": base_url,
        "api_key_env": f"{KEY_PREFIX}{name.upper()}",
        "provider": name,
        "extra_fields": [*extra_fields],
    }


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"continues": "prefix", "extra_fields": ["priority", "mm_processor_kwargs"]},
    "sglang": {"extra_fields": ["regex", "ebnf", "separate_reasoning", "stream_reasoning"]},
    "trtllm-serve": {"extra_fields": ["detokenize", "add_special_tokens"]},
    "gmi": _hosted("gmi", "https://api.gmi-serving.com/v1"),
    "openrouter": _hosted("openrouter", "https://openrouter.ai/api/v1", "transforms", "plugins"),
    "together": _hosted("together", "https://api.together.xyz/v1", "safety_model"),
    "fireworks": _hosted(
        "fireworks", "https://api.fireworks.ai/inference/v1", "context_length_exceeded_behavior"
    ),
}
assert PRESETS.keys() == {*get_args(PresetName)}


def filled(pool: Any) -> Any:
    """With what its preset says and it does not. What is no pool, or names no preset that there
    is, stays as it is: others refuse it."""
    if not isinstance(pool, Mapping):
        return pool
    preset = PRESETS.get(str(pool.get("preset")))
    return pool if preset is None else {"capacity_class": "external", **preset, **pool}
