"""What a model is made of, as far as its time and memory depend on it.

A shape knows no hardware and no precision. `shape_of_config` reads one from the config.json of a
checkpoint in the form of Hugging Face's transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelShape:
    """`params` are all weights, `active_params` those that one token passes through. They differ
    for a mixture of experts, of which a token uses `experts_per_token` of `experts` in each layer.

    `kv_values_per_token` is given where keys and values are kept in another form than one of each
    per head and layer (latent attention keeps one short vector per layer)."""

    params: float
    active_params: float
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context_tokens: int
    experts: int = 1
    experts_per_token: int = 1
    kv_values_per_token: int | None = None

    def __post_init__(self) -> None:
        counts = (self.layers, self.heads, self.kv_heads, self.head_dim, self.context_tokens)
        if not 0 < self.active_params <= self.params or min(counts) < 1:
            raise ValueError(f"no model has this shape: {self}")
        if not 1 <= self.experts_per_token <= self.experts:
            raise ValueError(f"a token passes {self.experts_per_token} of {self.experts} experts")

    @property
    def kv_values(self) -> int:
        """Numbers that are kept for one token of context: a key and a value per head and layer."""
        if self.kv_values_per_token is not None:
            return self.kv_values_per_token
        return 2 * self.layers * self.kv_heads * self.head_dim

    @property
    def expert_params(self) -> float:
        """Weights of one expert, summed over the layers: the whole is shared + experts * expert,
        the active part shared + experts_per_token * expert."""
        spare = self.experts - self.experts_per_token
        return (self.params - self.active_params) / spare if spare else 0.0

    def params_read(self, tokens: float) -> float:
        """Weights that one step over `tokens` tokens reads: at most every expert once. Without a
        word on which experts tokens choose, each token is taken to choose others."""
        experts = min(self.experts, max(1.0, tokens) * self.experts_per_token)
        return self.active_params + (experts - self.experts_per_token) * self.expert_params


def shape_of_config(config: Mapping[str, Any]) -> ModelShape:
    """The shape of a decoder like Llama's: attention with a projection each for query, key, value
    and output, and a gated MLP of three matrices. Raises ValueError for a config that lacks one of
    the sizes."""
    config = config.get("text_config") or config
    try:
        hidden, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
        heads = int(config["num_attention_heads"])
        vocabulary, context = int(config["vocab_size"]), int(config["max_position_embeddings"])
        inner = int(config.get("moe_intermediate_size") or config["intermediate_size"])
    except (KeyError, TypeError) as lacking:
        raise ValueError(f"the config has no {lacking}") from lacking
    kv_heads = int(config.get("num_key_value_heads") or heads)
    head_dim = int(config.get("head_dim") or hidden // heads)
    experts = int(config.get("num_experts") or config.get("num_local_experts") or 1)
    per_token = int(config.get("num_experts_per_tok") or 1)
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    expert = 3 * hidden * inner
    router = hidden * experts if experts > 1 else 0
    embedding = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    shared = embedding + layers * (attention + router + 2 * hidden) + hidden
    return ModelShape(
        params=shared + layers * experts * expert,
        active_params=shared + layers * per_token * expert,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context_tokens=context,
        experts=experts,
        experts_per_token=per_token,
    )
