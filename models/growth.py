"""A larger network that begins as a smaller one. It says the same at first, and has room to learn.

After Chen et al., 2016 (Net2Net). Every feature comes twice. Each reader of the two adds opposite
noise, so that the sum is as before and both learn different things. New layers add nothing at
first. Law: the logits of both networks are the same.
"""

import torch
from torch import Tensor
from torch.nn import Parameter
from transformers import LlamaForCausalLM

NOISE = 0.5
"""Of the noise between two halves, as a share of the matrix that they come from."""


@torch.no_grad()  # type: ignore[untyped-decorator]
def grow(small: LlamaForCausalLM, large: LlamaForCausalLM, generator: torch.Generator) -> None:
    """Overwrite `large` with `small`. Its width, head and feed-forward are twice those of `small`.
    It has as many heads and at least as many layers."""
    large.model.embed_tokens.weight.copy_(_twice(small.model.embed_tokens.weight, 1))
    _set(large.model.norm.weight, _twice(small.model.norm.weight, 0) / 2)
    places = _places(len(small.model.layers), len(large.model.layers))
    for number, layer in enumerate(large.model.layers):
        if number in places:
            _widen(small.model.layers[places[number]], layer, small.config, generator)
        else:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()


def _places(old: int, new: int) -> dict[int, int]:
    """The places of the old layers among the new: spread evenly, from the first to the last."""
    return {round(number * (new - 1) / max(1, old - 1)): number for number in range(old)}


def _widen(
    old: torch.nn.Module, new: torch.nn.Module, config: object, rng: torch.Generator
) -> None:
    for name in ("input_layernorm", "post_attention_layernorm"):
        _set(getattr(new, name).weight, _twice(getattr(old, name).weight, 0))
    heads = (config.num_attention_heads, config.num_key_value_heads)  # type: ignore[attr-defined]
    was, now = old.self_attn, new.self_attn
    _turn(was.q_proj.weight, now.q_proj.weight, heads[0], 2**0.5, rng, is_read=False)
    _turn(was.k_proj.weight, now.k_proj.weight, heads[1], 1.0, rng, is_read=True)
    values = was.v_proj.weight.unflatten(0, (heads[1], -1))
    _set(now.v_proj.weight, _halved(_twice(values, 1).flatten(0, 1), rng))
    answers = was.o_proj.weight.unflatten(1, (heads[0], -1))
    _set(now.o_proj.weight, _twice(_halved(answers, rng).flatten(1), 0))
    for name in ("gate_proj", "up_proj"):
        wide = _twice(getattr(old.mlp, name).weight, 0)
        _set(getattr(new.mlp, name).weight, _halved(wide, rng))
    _set(new.mlp.down_proj.weight, _twice(_halved(old.mlp.down_proj.weight, rng), 0))


def _turn(
    old: Tensor, new: Tensor, heads: int, scale: float, rng: torch.Generator, *, is_read: bool
) -> None:
    """Put the rotary pairs of the old head at every second frequency of the new one, which has
    twice as many. The new pairs of queries keep their random start. Those of keys are zero
    (`is_read`), so the new pairs answer nothing."""
    pairs = old.unflatten(0, (heads, 2, -1))
    new_pairs = new.unflatten(0, (heads, 2, -1)).clone()
    new_pairs[:, :, 0::2] = _halved(pairs * scale, rng)
    if is_read:
        new_pairs[:, :, 1::2] = 0
    _set(new, new_pairs.flatten(0, 2))


def _halved(matrix: Tensor, rng: torch.Generator) -> Tensor:
    """A reader of features that come twice. Each gets half of the weights, with noise that adds up
    to nothing."""
    noise = torch.randn(matrix.shape, generator=rng) * (NOISE * matrix.std())
    return torch.cat([matrix / 2 + noise, matrix / 2 - noise], dim=-1)


def _twice(tensor: Tensor, dim: int) -> Tensor:
    return torch.cat([tensor, tensor], dim=dim)


def _set(parameter: Parameter | Tensor, value: Tensor) -> None:
    parameter.copy_(value)
