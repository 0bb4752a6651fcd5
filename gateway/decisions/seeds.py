"""Seeds of decisions: a number for each call, by which ties between equal pools fall.

The one that the next call takes is known beforehand, so that what is foretold of a call is what
then happens to it.
"""

from random import Random
from typing import Final

SEED_BITS: Final = 53
"""So many, that JSON has each of them exactly."""


class Seeds:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.next = rng.getrandbits(SEED_BITS)

    def take(self) -> int:
        seed, self.next = self.next, self._rng.getrandbits(SEED_BITS)
        return seed
