"""What a simulated model says: words of its tokenizer, and the form that its answer must have. Each
token is a function of the prompt, the seed and the position. So an answer that goes on elsewhere is
the one that was never cut, whatever runs beside it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from workers.engines.base import CheckpointUnsupported, GenerationRequest
from workers.engines.continuous.sampling import drawn, uniform
from workers.engines.guides import Matcher, forbidden

LENGTH_MAX = 512
"""Of an answer that ends by itself, in tokens. Its mean is half of it."""
LENGTH_POSITION = 2**63
"""Where the length is drawn: behind every position of an answer."""
SEED_BYTES = 16
WORD_SHARE = 0.7
"""Of the tokens inside of a form that may be words. The rest are marks, which bring it to its end.
"""
WORD = re.compile(rb" [a-z]{2,}")
MARK = re.compile(rb'[ \n"{}\[\],:0-9]+')


class Answer(NamedTuple):
    """What is decided of an answer before its first token: `key` of its draws, and how many tokens
    it has if nothing else ends it."""

    key: int
    length: int


class Words:
    """The tokens of a vocabulary that read as words. Raises CheckpointUnsupported where it has
    none."""

    def __init__(
        self, raw: Callable[[int], bytes], *, vocabulary: int, end_token_ids: Collection[int]
    ) -> None:
        spelled = [(token, raw(token)) for token in range(vocabulary)]
        self._words = [token for token, spelling in spelled if WORD.fullmatch(spelling)]
        self._marks = {token for token, spelling in spelled if MARK.fullmatch(spelling)}
        self._are_words = frozenset(self._words)
        self._vocabulary = vocabulary
        self._end = min(end_token_ids, default=None)
        if not self._words:
            raise CheckpointUnsupported("the tokenizer has no token that is a word")

    def answer(self, request: GenerationRequest) -> Answer:
        """A greedy answer does not depend on the seed."""
        seed = 0 if drawn(request, request.seed, 0).greedy else request.seed
        prompt = np.asarray(request.prompt_token_ids, "<i8").tobytes()
        digest = blake2b(
            prompt, digest_size=8, key=seed.to_bytes(SEED_BYTES, "little", signed=True)
        )
        key = int.from_bytes(digest.digest(), "little")
        return Answer(key, 1 + int(uniform(key, LENGTH_POSITION) * LENGTH_MAX))

    def token(
        self, answer: Answer, position: int, *, may_end: bool, matcher: Matcher | None = None
    ) -> int:
        """The token at `position`. `may_end`: the answer ends by itself where its length is
        reached."""
        chance = uniform(answer.key, position)
        if matcher is not None:
            return self._formed(matcher, chance)
        if may_end and self._end is not None and position >= answer.length:
            return self._end
        return _one_of(self._words, chance)

    def _formed(self, matcher: Matcher, chance: float) -> int:
        allowed = np.flatnonzero(~forbidden([matcher], self._vocabulary)[0]).tolist()
        words = [token for token in allowed if token in self._are_words]
        marks = [token for token in allowed if token in self._marks]
        if words and (chance < WORD_SHARE or not marks):
            return _one_of(words, chance / WORD_SHARE if marks else chance)
        within = (chance - WORD_SHARE) / (1 - WORD_SHARE) if words else chance
        return _one_of(marks or allowed, within)


def _one_of(tokens: Sequence[int], chance: float) -> int:
    return tokens[min(int(chance * len(tokens)), len(tokens) - 1)]
