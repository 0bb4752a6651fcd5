"""Draws of a whole batch by our own sampler, inside vLLM's, for machines without a GPU.

There vLLM keeps a generator for each seeded request, and draws row by row. It breaks down where a
seeded prompt takes more than one step (0.32: `CPU Generator does not use offset`). A draw here is a
function of the seed, the position and the row's logits, as in our engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vllm import SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality

from workers.engines.continuous.sampling import drawn, next_tokens
from workers.sampling import Sampling

SAMPLING, SEED, POSITION = "sluice_sampling", "sluice_seed", "sluice_position"
GREEDY = Sampling(temperature=0)


class _Row(NamedTuple):
    sampling: Sampling
    seed: int
    position: int
    """Of its first draw: an answer that goes on begins behind its prefix."""
    output_token_ids: list[int]
    """vLLM's own list, which grows."""


class SeededDraws(LogitsProcessor):
    """Leaves each row one token, which is all that vLLM can then draw. It is called after the
    penalties and the temperature, for batches in which any row draws. Greedy rows are not looked
    at."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self._rows: dict[int, _Row] = {}

    def is_argmax_invariant(self) -> bool:
        return True

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._rows.pop(index, None)
        for index, params, _, output_token_ids in batch_update.added:
            self._set(index, _row(params, output_token_ids))
        for source, target, direction in batch_update.moved:
            moved, replaced = self._rows.pop(source, None), self._rows.pop(target, None)
            self._set(target, moved)
            if direction is MoveDirectionality.SWAP:
                self._set(source, replaced)

    def apply(self, logits: Any) -> Any:
        draws = [self._draw(index) for index in range(len(logits))]
        tokens = logits.new_tensor(next_tokens(logits, draws)).long()[:, None]
        chosen = logits.gather(-1, tokens)
        return logits.fill_(-float("inf")).scatter_(-1, tokens, chosen)

    def _set(self, index: int, row: _Row | None) -> None:
        if row is None:
            self._rows.pop(index, None)
        else:
            self._rows[index] = row

    def _draw(self, index: int) -> Any:
        """Draw a token. The temperature is in the logits already."""
        row = self._rows.get(index)
        if row is None or row.sampling.temperature == 0:
            return drawn(GREEDY, 0, 0)
        draw = drawn(row.sampling, row.seed, row.position + len(row.output_token_ids))
        return draw._replace(temperature=1.0)


def _row(params: SamplingParams, output_token_ids: list[int]) -> _Row | None:
    arguments = params.extra_args or {}
    if SAMPLING not in arguments:
        return None
    return _Row(arguments[SAMPLING], arguments[SEED], arguments[POSITION], output_token_ids)
