"""Token ids to vectors: one padded pass, then the mean of the last layer over the tokens of each
input, brought to length 1. Knows nothing of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from workers.engines.base import CheckpointUnsupported
from workers.engines.embedding.checkpoint import EmbeddingCheckpoint

Tensor = Any
Vectors = Any
"""[inputs, dimensions], float32."""

TOLERANCE = 1e-4  # float32 sums in another order differ by 1e-6
LENGTH_MIN = 1e-12


class Encoder:
    def __init__(self, checkpoint: EmbeddingCheckpoint) -> None:
        self._model = checkpoint.model
        self._pad_token_id = checkpoint.pad_token_id

    @torch.inference_mode()
    def vectors(self, inputs: Sequence[Sequence[int]]) -> Vectors:
        token_ids, mask = self._padded(inputs)
        hidden = self._model(input_ids=token_ids, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].to(hidden.dtype)
        means = (hidden * weights).sum(1) / weights.sum(1)
        return unit(means.numpy())

    def prove(self, token_ids: Sequence[int]) -> None:
        """Compare an input beside a longer one with the same input alone. It also warms the
        libraries up. Raises `CheckpointUnsupported` for a model that sees padding."""
        ids = list(token_ids)
        half = ids[: len(ids) // 2]
        off = abs(self.vectors([ids, half])[1] - self.vectors([half])[0]).max()
        if not off < TOLERANCE:
            raise CheckpointUnsupported(f"padding changes its vectors by {off:.3g}")

    def _padded(self, inputs: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        width = max(map(len, inputs))
        token_ids = np.full((len(inputs), width), self._pad_token_id, np.int64)
        mask = np.zeros((len(inputs), width), np.int64)
        for row, ids in enumerate(inputs):
            token_ids[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        return torch.from_numpy(token_ids), torch.from_numpy(mask)


def unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, LENGTH_MIN)


def shortened(vector: Vectors, dimensions: int | None) -> bytes:
    """The first `dimensions` of a vector, of length 1 again, as little-endian float32 bytes."""
    components = vector if dimensions is None else unit(vector[:dimensions])
    return bytes(np.ascontiguousarray(components, "<f4").tobytes())
