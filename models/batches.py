"""Samples as tensors: ids with labels on what the assistant says, grouped by length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from models.corpus import Passage, Talk, Turn
from models.tokenizer import (
    ASSISTANT,
    BEGIN,
    CONTEXT_TOKENS,
    END,
    RESULT_FOOT,
    RESULT_HEAD,
    SYSTEM,
    TOOLS_FOOT,
    TOOLS_HEAD,
    USER,
)

IGNORED = -100
HELD_OUT_BATCH_TOKENS = 3072
ENCODED_TOGETHER = 2000  # even, so that every second passage stays every second one
POOL_ROWS = 2560  # sorted by length together; the more, the less padding and the less chance
MARKS = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}


@dataclass(frozen=True, slots=True)
class Row:
    ids: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """`ids`, `labels`: int64, (rows, tokens). Labels are unshifted, and `IGNORED` where nothing is
    learned."""

    ids: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class Piece:
    """A text that is encoded by itself. If it is learned, it is learned but for the places
    `given`."""

    text: str
    learned: bool = False
    given: tuple[tuple[int, int], ...] = ()

    def teaches(self, place: int) -> bool:
        return self.learned and not any(start <= place < end for start, end in self.given)


def encode_rows(samples: Sequence[Talk | Passage], tokenizer: PreTrainedTokenizerFast) -> list[Row]:
    """One row per sample that fits the context, in the order of the samples."""
    starts = range(0, len(samples), ENCODED_TOGETHER)
    parts = (_encode(samples[at : at + ENCODED_TOGETHER], tokenizer) for at in starts)
    return [row for part in parts for row in part if len(row.ids) <= CONTEXT_TOKENS]


def draw_batches(
    samples: Sequence[Talk | Passage],
    tokenizer: PreTrainedTokenizerFast,
    rng: Random,
    batch_tokens: int,
) -> Iterator[Batch]:
    """Batches without end, epoch after epoch, of at most `batch_tokens` each. A longer row is a
    batch by itself."""
    while True:
        order = rng.sample(range(len(samples)), len(samples))
        for start in range(0, len(order), POOL_ROWS):
            drawn = [samples[i] for i in order[start : start + POOL_ROWS]]
            pool = sorted(encode_rows(drawn, tokenizer), key=lambda row: len(row.ids))
            groups = _groups(pool, batch_tokens)
            batches = [_stack(group, tokenizer.pad_token_id) for group in groups]
            rng.shuffle(batches)
            yield from batches


def fixed_batches(rows: Sequence[Row], pad_id: int) -> list[Batch]:
    by_length = sorted(rows, key=lambda row: len(row.ids))
    return [_stack(group, pad_id) for group in _groups(by_length, HELD_OUT_BATCH_TOKENS)]


def _encode(samples: Sequence[Talk | Passage], tokenizer: PreTrainedTokenizerFast) -> list[Row]:
    pieces = [_pieces(sample, index) for index, sample in enumerate(samples)]
    texts = [piece.text for row in pieces for piece in row]
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    encodings = iter(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))
    return [_row([(piece, *next(encodings)) for piece in row]) for row in pieces]


def _pieces(sample: Talk | Passage, index: int) -> list[Piece]:
    """The pieces of a sample. Every second passage has no begin token."""
    if isinstance(sample, Passage):
        return [Piece(BEGIN * (index % 2) + sample.text + END, True)]
    return [
        Piece(BEGIN),
        *_tool_pieces(sample.tools),
        *(piece for turn in sample.turns for piece in _turn_pieces(turn)),
    ]


def _tool_pieces(tools: Sequence[str]) -> list[Piece]:
    """The pieces that declare tools, as the chat template writes them."""
    if not tools:
        return []
    declared = "".join(f"{tool}\n" for tool in tools)
    return [Piece(SYSTEM), Piece(TOOLS_HEAD + declared + TOOLS_FOOT + END)]


def _turn_pieces(turn: Turn) -> list[Piece]:
    if turn.role == "tool":
        return [Piece(USER), Piece(RESULT_HEAD + turn.content + RESULT_FOOT + END)]
    return [
        Piece(MARKS[turn.role]),
        Piece(turn.content + END, turn.role == "assistant", turn.given),
    ]


def _row(encoded: list[tuple[Piece, list[int], list[tuple[int, int]]]]) -> Row:
    ids = tuple(token for _, tokens, _ in encoded for token in tokens)
    labels = (
        token if piece.teaches(start) else IGNORED
        for piece, tokens, places in encoded
        for token, (start, _) in zip(tokens, places, strict=True)
    )
    return Row(ids, tuple(labels))


def _groups(rows: Sequence[Row], batch_tokens: int) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        if group and len(row.ids) * (len(group) + 1) > batch_tokens:
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
