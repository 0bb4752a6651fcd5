"""The train and held-out splits: a dialogue belongs to one of them by the hash of its text, never to both."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from random import Random

from models.corpus.talk import (
    draw_calling_talk,
    draw_json_talk,
    draw_long_talk,
    draw_passage,
    draw_talk,
    draw_translation_talk,
)
from models.corpus.turns import Passage, Talk

HELD_OUT_SHARE = 50  # one of this many texts is held out
TOPICS_MAX, TOPICS_MAX_OF_SOME = 3, 9
LONG_CHARACTERS = (2_500, 14_000)  # about 700 to 4,000 tokens


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
    if isinstance(sample, Passage):
        return sample.text
    return "\n".join([*sample.tools, *(turn.content for turn in sample.turns)])


def _allowed(rng: Random, count: int, reserved: Collection[str]) -> Iterator[Talk | Passage]:
    for _ in range(count):
        sample = _draw(rng)
        if isinstance(sample, Passage) or not any(
            prompt in text.casefold() for text in sample.said_by_user for prompt in reserved
        ):
            yield sample


def _draw(rng: Random) -> Talk | Passage:
    draw: Callable[[Random], Talk | Passage] = rng.choices(KINDS, weights=SHARES)[0]
    return draw(rng)


def _short_talk(rng: Random) -> Talk:
    return draw_talk(rng, TOPICS_MAX)


def _talk_of_some_topics(rng: Random) -> Talk:
    return draw_talk(rng, TOPICS_MAX_OF_SOME)


def _long_talk(rng: Random) -> Talk:
    return draw_long_talk(rng, rng.randint(*LONG_CHARACTERS))


KINDS = (
    draw_passage, _short_talk, _talk_of_some_topics, _long_talk, draw_json_talk, draw_calling_talk, draw_translation_talk,
)  # fmt: skip
SHARES = (5, 55, 3, 1, 16, 19, 1)


def _is_held_out(sample: Talk | Passage) -> bool:
    return (
        int.from_bytes(sha256(text_of(sample).encode()).digest()[:4], "big") % HELD_OUT_SHARE == 0
    )
