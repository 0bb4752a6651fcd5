"""A grown network says what the smaller one says, and its halves learn different things."""

from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoTokenizer

from models.growth import grow
from models.network import build_network
from models.sizes import LARGE, SMALL

MODELS = Path(__file__).parents[2] / "models"


def test_a_grown_network_says_the_same_and_can_become_another() -> None:
    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(MODELS / SMALL.name)
    small, large = (build_network(size, tokenizer) for size in (SMALL, LARGE))
    for parameter in small.parameters():  # norms of ones would hide a wrong scale
        parameter.data += 0.05 * torch.randn_like(parameter)
    grow(small, large, torch.Generator().manual_seed(2))
    ids = torch.randint(0, len(tokenizer), (2, 50))
    with torch.no_grad():
        said, again = small(input_ids=ids).logits, large(input_ids=ids).logits
    assert torch.allclose(said, again, atol=2e-3)
    large(input_ids=ids, labels=ids).loss.backward()
    gradient = large.model.layers[0].mlp.gate_proj.weight.grad
    left, right = gradient.chunk(2, dim=0)
    assert not torch.allclose(left, right, rtol=1e-2)
    assert replace(LARGE, width=2 * SMALL.width) == LARGE
