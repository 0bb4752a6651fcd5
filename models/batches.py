"""Samples as tensors: ids with labels on what the assistant says, grouped by length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from models.corpus import Passage, Talk
from models.tokenizer import ASSISTANT, BEGIN, CONTEXT_TOKENS, END, SYSTEM, USER

IGNORED = -100
BATCH_TOKENS = 4096
ENCODED_TOGETHER = 2000  # even, so that every second passage stays every second one
POOL_ROWS = 2560  # sorted by length together; the more, the less padding and the less chance
MARKS = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}


@dataclass(frozen=True, slots=True)
class Row:
    ids: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """`ids`, `labels`: int64, (rows, tokens); labels are unshifted, `IGNORED` where not learned."""

    ids: Tensor
    labels: Tensor


def encode_rows(samples: Sequence[Talk | Passage], tokenizer: PreTrainedTokenizerFast) -> list[Row]:
    """One row per sample that fits the context, in the order of the samples."""
    starts = range(0, len(samples), ENCODED_TOGETHER)
    parts = (_encode(samples[at : at + ENCODED_TOGETHER], tokenizer) for at in starts)
    return [row for part in parts for row in part if len(row.ids) <= CONTEXT_TOKENS]


def draw_batches(rows: Sequence[Row], rng: Random, pad_id: int) -> Iterator[Batch]:
    """Batches without end, epoch after epoch, of at most `BATCH_TOKENS` tokens each."""
    while True:
        order = rng.sample(range(len(rows)), len(rows))
        for start in range(0, len(order), POOL_ROWS):
            drawn = (rows[i] for i in order[start : start + POOL_ROWS])
            pool = sorted(drawn, key=lambda row: len(row.ids))
            batches = [_stack(group, pad_id) for group in _groups(pool)]
            rng.shuffle(batches)
            yield from batches


def fixed_batches(rows: Sequence[Row], pad_id: int) -> list[Batch]:
    return [_stack(group, pad_id) for group in _groups(sorted(rows, key=lambda row: len(row.ids)))]


def _encode(samples: Sequence[Talk | Passage], tokenizer: PreTrainedTokenizerFast) -> list[Row]:
    pieces = [_pieces(sample, index) for index, sample in enumerate(samples)]
    texts = [text for row in pieces for text, _ in row]
    encoded = iter(tokenizer(texts, add_special_tokens=False)["input_ids"])
    return [_row([(next(encoded), learned) for _, learned in row]) for row in pieces]


def _pieces(sample: Talk | Passage, index: int) -> list[tuple[str, bool]]:
    """Texts and whether they are learned; every second passage has no begin token."""
    if isinstance(sample, Passage):
        return [(BEGIN * (index % 2) + sample.text + END, True)]
    marked = [
        (MARKS[turn.role], turn.content + END, turn.role == "assistant") for turn in sample.turns
    ]
    return [(BEGIN, False)] + [
        piece for mark, text, learned in marked for piece in ((mark, False), (text, learned))
    ]


def _row(pieces: list[tuple[list[int], bool]]) -> Row:
    ids = tuple(i for piece, _ in pieces for i in piece)
    return Row(ids, tuple(i if learned else IGNORED for piece, learned in pieces for i in piece))


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        if group and len(row.ids) * (len(group) + 1) > BATCH_TOKENS:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _stack(rows: Sequence[Row], pad_id: int) -> Batch:
    width = max(len(row.ids) for row in rows)
    ids = torch.tensor([[*row.ids, *(pad_id,) * (width - len(row.ids))] for row in rows])
    return Batch(
        ids, torch.tensor([[*row.labels, *(IGNORED,) * (width - len(row.labels))] for row in rows])
    )
