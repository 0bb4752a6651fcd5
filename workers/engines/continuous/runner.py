"""One forward pass over neighbouring rows. Builds positions, places and mask so that rows of
different lengths, and padding, do not see each other; knows nothing of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workers.engines.base import CheckpointUnsupported
from workers.engines.continuous.slots import KvRows, RowsCache, Window

Tensor = Any
LOGITS_TOLERANCE = 1e-3  # of the largest; float32 sums in another order differ by 1e-5


@dataclass(frozen=True, slots=True)
class RowInput:
    """The tokens to compute in one row, after the `start` tokens that it holds already."""

    start: int
    token_ids: Sequence[int]

    @property
    def end(self) -> int:
        return self.start + len(self.token_ids)


class Runner:
    def __init__(self, model: Any, rows: KvRows) -> None:
        self._model = model
        self._rows = rows
        self._cache = RowsCache(rows)

    @torch.inference_mode()
    def forward(self, first_row: int, inputs: Sequence[RowInput]) -> Tensor:
        """Logits [rows, vocabulary] after the last token of each row; the rows start at
        `first_row`."""
        logits = self._logits(first_row, inputs, everywhere=False)
        if logits.shape[1] == 1:
            return logits[:, 0]
        ends = [len(row.token_ids) - 1 for row in inputs]
        keep = sorted(set(ends))
        return logits[torch.arange(len(inputs)), torch.tensor([keep.index(end) for end in ends])]

    @torch.inference_mode()
    def forward_everywhere(self, first_row: int, inputs: Sequence[RowInput]) -> Tensor:
        """Logits [rows, tokens, vocabulary] after each token; rows are padded at their ends."""
        return self._logits(first_row, inputs, everywhere=True)

    def _logits(self, first_row: int, inputs: Sequence[RowInput], *, everywhere: bool) -> Tensor:
        width = max(len(row.token_ids) for row in inputs)
        kv_tokens = max(row.end for row in inputs)
        positions = torch.tensor([_positions(row, width) for row in inputs])
        self._cache.open(
            Window(first_row, len(inputs), kv_tokens, self._places(first_row, inputs, width))
        )
        keep = [*range(width)] if everywhere else sorted({len(row.token_ids) - 1 for row in inputs})
        return self._model(
            input_ids=torch.tensor([_padded(row, width) for row in inputs]),
            position_ids=positions,
            attention_mask=_causal_mask(positions, kv_tokens),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=torch.tensor(keep) if width > 1 else 1,
        ).logits

    @torch.inference_mode()
    def prove(self, token_ids: Sequence[int]) -> None:
        """Compare rows, chunks and padding with the model's own plain pass. It also warms the
        libraries up. Raises `CheckpointUnsupported` for an architecture whose state these rows do
        not hold."""
        ids = list(token_ids)
        half = len(ids) // 2
        plain = self._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        self.forward(0, [RowInput(0, ids[:half]), RowInput(0, ids[: half - 1])])
        logits = self.forward(
            0, [RowInput(half, ids[half:]), RowInput(half - 1, ids[half - 1 : half])]
        )
        reference = torch.stack([plain[-1], plain[half - 1]])
        off = (logits - reference).abs().max().item() / reference.abs().max().item()
        if not off < LOGITS_TOLERANCE:
            raise CheckpointUnsupported(
                f"its cached logits differ from its plain ones by {off:.3g}"
            )

    def _places(self, first_row: int, inputs: Sequence[RowInput], width: int) -> Tensor:
        places: list[int] = []
        for row, row_input in enumerate(inputs, start=first_row):
            base = row * self._rows.stride
            places += range(base + row_input.start, base + row_input.end)
            places += [base + self._rows.context_tokens] * (width - len(row_input.token_ids))
        return torch.tensor(places)


def _positions(row: RowInput, width: int) -> list[int]:
    # Padding repeats the first position: it must see something, or its softmax is undefined.
    return [*range(row.start, row.end), *([row.start] * (width - len(row.token_ids)))]


def _padded(row: RowInput, width: int) -> list[int]:
    return [*row.token_ids, *([0] * (width - len(row.token_ids)))]


def _causal_mask(positions: Tensor, kv_tokens: int) -> Tensor:
    """The additive mask [rows, 1, tokens, kv_tokens]: each token sees its own row up to itself."""
    visible = torch.arange(kv_tokens) <= positions[:, :, None]
    return torch.where(visible, 0.0, float("-inf"))[:, None]
