"""Turns the prompts of a body, strings or token ids, into token ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from workers.deployments.bodies import Prompt, TokenIds
from workers.engines.base import Bound, Text

CHARACTERS_INLINE = 4096

Encoded = TypeVar("Encoded")


def token_ids(prompts: Iterable[Prompt], text: Text, bound: Bound | None = None) -> list[TokenIds]:
    """The ids of each prompt. Token ids stay as they are: their sender has put special tokens
    around them. A prompt that is longer than `bound` is cut."""
    return [
        text.token_ids(prompt, bound) if isinstance(prompt, str) else _cut(tuple(prompt), bound)
        for prompt in prompts
    ]


def _cut(ids: TokenIds, bound: Bound | None) -> TokenIds:
    return ids if bound is None else bound.cut(ids)


def written_characters(prompts: Iterable[Prompt]) -> int:
    """The number of characters to encode."""
    return sum(len(prompt) for prompt in prompts if isinstance(prompt, str))


async def inline_or_in_thread(characters: int, encode: Callable[[], Encoded]) -> Encoded:
    """Encode a text, a long one in a thread. A short text takes less time than reaching another
    thread."""
    if characters <= CHARACTERS_INLINE:
        return encode()
    return await asyncio.to_thread(encode)
