"""The train and held-out splits: a dialogue belongs to one of them by the hash of its text, never to both."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from random import Random

from models.corpus.talk import Passage, Talk, draw_passage, draw_talk

HELD_OUT_SHARE = 50  # one of this many texts is held out
LONG_SHARE = 0.03
LONG_TOPICS_MAX = 9
PASSAGE_SHARE = 0.06


@dataclass(frozen=True, slots=True)
class Split:
    train: tuple[Talk | Passage, ...]
    held_out: tuple[Talk | Passage, ...]


def draw_split(rng: Random, count: int, reserved: Collection[str]) -> Split:
    """`count` different samples, none of whose user turns contains a `reserved` prompt."""
    samples = tuple(
        dict.fromkeys(_allowed(rng, count, [prompt.casefold().rstrip(".?") for prompt in reserved]))
    )
    return Split(
        tuple(s for s in samples if not _is_held_out(s)),
        tuple(s for s in samples if _is_held_out(s)),
    )


def text_of(sample: Talk | Passage) -> str:
    return (
        sample.text
        if isinstance(sample, Passage)
        else "\n".join(turn.content for turn in sample.turns)
    )


def _allowed(rng: Random, count: int, reserved: Collection[str]) -> Iterator[Talk | Passage]:
    for _ in range(count):
        sample = _draw(rng)
        if isinstance(sample, Passage) or not any(
            prompt in said.casefold() for said in sample.said_by_user for prompt in reserved
        ):
            yield sample


def _draw(rng: Random) -> Talk | Passage:
    chance = rng.random()
    if chance < PASSAGE_SHARE:
        return draw_passage(rng)
    return draw_talk(rng, LONG_TOPICS_MAX if chance < PASSAGE_SHARE + LONG_SHARE else 3)


def _is_held_out(sample: Talk | Passage) -> bool:
    return (
        int.from_bytes(sha256(text_of(sample).encode()).digest()[:4], "big") % HELD_OUT_SHARE == 0
    )
