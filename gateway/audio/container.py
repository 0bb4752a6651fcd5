"""What readers of containers share: the bytes that they read, and why they refuse them.

A container is believed on its length unless it contradicts itself. Each reader is bounded: by its
own number of elements, or by one pass over the file.
"""

from enum import Enum
from typing import NamedTuple, Protocol

ELEMENTS_MAX = 10_000
"""Chunks, boxes or blocks that one file may have around its sound."""
TOLERANCE, TOLERANCE_S = 0.9, 1.0
"""A length may be this share of the true one, or so many seconds short of it: encoders round, and
cut what they pad."""


class AudioFile(Protocol):
    """A file that can be read at any place; a read at its end gives less."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, count: int) -> bytes: ...


class Flaw(Enum):
    """Of a file that says it is audio."""

    NO_AUDIO = "no audio"
    CUT_OFF = "cut off"
    TOO_SHORT = "too short"
    """It says that it is shorter than what is in it."""


class FlawedAudio(Exception):
    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.value)
        self.flaw = flaw


class Length(NamedTuple):
    """Seconds, by what a file says of itself."""

    said: float | None
    """None: it does not say."""
    least: float = 0.0
    """What is in it for sure."""
    most: float = 0.0
    """What may be in it, if that is more than its bytes at the slowest."""
    is_exact: bool = False
    """Of samples that all have one size, so that bytes are seconds."""


def is_short(length: float, least: float, a_second: float = 1.0) -> bool:
    """Whether `length` cannot be true of what is `least` long, `a_second` to each second."""
    return length < least * TOLERANCE and least - length > TOLERANCE_S * a_second
