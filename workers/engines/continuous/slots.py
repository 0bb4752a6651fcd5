"""The memory of attention: one row of keys and values per sequence. The rows of a batch are kept
neighbours, so that a step reads a view, never a copy. It has also the cache class through which
transformers' models write to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

Tensor = Any


@dataclass(frozen=True, slots=True)
class KvShape:
    layers: int
    heads: int
    head_dim: int


class KvRows:
    """Keys and values of `rows` sequences of up to `context_tokens`, and of `blocks` cached prefix
    blocks. A row has one place more than the context. Padding is written there and never read."""

    def __init__(
        self, shape: KvShape, *, rows: int, context_tokens: int, blocks: int, block_tokens: int
    ) -> None:
        width = shape.heads * shape.head_dim
        self.shape = shape
        self.context_tokens = context_tokens
        self.stride = context_tokens + 1
        self.block_tokens = block_tokens
        self.rows = _zeros(2 * shape.layers, rows, self.stride, width)
        self._blocks = _zeros(blocks, 2 * shape.layers, block_tokens, width)

    def move(self, source: int, target: int, tokens: int) -> None:
        if source != target:
            self.rows[:, target, :tokens] = self.rows[:, source, :tokens]

    def save_block(self, row: int, start: int, block: int) -> None:
        self._blocks[block] = self.rows[:, row, start : start + self.block_tokens]

    def load_blocks(self, row: int, blocks: list[int]) -> None:
        for number, block in enumerate(blocks):
            start = number * self.block_tokens
            self.rows[:, row, start : start + self.block_tokens] = self._blocks[block]


@dataclass(frozen=True, slots=True)
class Window:
    """The flat places in a layer's rows where one forward pass writes, and the part that it
    reads."""

    first_row: int
    row_count: int
    kv_tokens: int
    places: Tensor


class RowsLayer(CacheLayerMixin):
    """One layer's view of the rows, as a transformers cache layer."""

    def __init__(self, rows: KvRows, layer: int) -> None:
        super().__init__()
        heads, dim = rows.shape.heads, rows.shape.head_dim
        self.keys, self.values = (
            rows.rows[2 * layer],
            rows.rows[2 * layer + 1],
        )  # [rows, stride, width]
        self._width = heads * dim
        self._flat_keys = self.keys.view(-1, self._width)
        self._flat_values = self.values.view(-1, self._width)
        self._head_keys = self.keys.view(*self.keys.shape[:2], heads, dim).transpose(1, 2)
        self._head_values = self.values.view(*self.values.shape[:2], heads, dim).transpose(1, 2)
        self._context_tokens = rows.context_tokens
        self.window: Window | None = None
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the rows exist from the start."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write states [rows, heads, tokens, head_dim]. Returns all of the window's states, as
        views."""
        window = self._bound()
        self._flat_keys.index_copy_(0, window.places, _by_token(key_states, self._width))
        self._flat_values.index_copy_(0, window.places, _by_token(value_states, self._width))
        last_row = window.first_row + window.row_count
        return (
            self._head_keys[window.first_row : last_row, :, : window.kv_tokens],
            self._head_values[window.first_row : last_row, :, : window.kv_tokens],
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._bound().kv_tokens, 0

    def get_seq_length(self) -> int:
        return self._bound().kv_tokens

    def get_max_length(self) -> int:
        return self._context_tokens

    def _bound(self) -> Window:
        assert self.window is not None, "a forward pass opens a window first"
        return self.window


class RowsCache(Cache):
    def __init__(self, rows: KvRows) -> None:
        super().__init__(layers=[RowsLayer(rows, layer) for layer in range(rows.shape.layers)])

    def open(self, window: Window) -> None:
        for layer in self.layers:
            layer.window = window


def _by_token(states: Tensor, width: int) -> Tensor:
    return states.transpose(1, 2).reshape(-1, width)


def _zeros(*shape: int) -> Tensor:
    # numpy's zeros are untouched pages, so a row costs memory only as far as it was ever used.
    return torch.from_numpy(np.zeros(shape, np.float32))
