"""Prompts as a body writes them, strings or token ids, to token ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from workers.deployments.bodies import Prompt, TokenIds
from workers.engines.base import Text

CHARACTERS_INLINE = 4096

Encoded = TypeVar("Encoded")


def token_ids(prompts: Iterable[Prompt], text: Text) -> list[TokenIds]:
    """Token ids stay what they are: whoever sends them has put special ones around them."""
    return [
        text.token_ids(prompt) if isinstance(prompt, str) else tuple(prompt) for prompt in prompts
    ]


def written_characters(prompts: Iterable[Prompt]) -> int:
    """How much text there is to encode."""
    return sum(len(prompt) for prompt in prompts if isinstance(prompt, str))


async def inline_or_in_thread(characters: int, encode: Callable[[], Encoded]) -> Encoded:
    """A short text is encoded in less time than it takes to reach another thread."""
    if characters <= CHARACTERS_INLINE:
        return encode()
    return await asyncio.to_thread(encode)
