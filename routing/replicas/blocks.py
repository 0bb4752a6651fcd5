"""What a prompt begins with, as a chain of block hashes: two prompts that share a block of their
chains share everything before it as well. Pure.

Guards that no tenant learns by timing what another one asks: a chain is salted with its tenant, so
chains of two tenants have no block in common (`workers/engines/continuous/prefix.py` holds the same
of what is computed).
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

BLOCK_BYTES = 256
"""Of text 256 characters of plain English, of token ids, in four bytes each, 64 tokens."""
BLOCK_TOKENS = 64
BLOCKS_MAX = 128
"""A longer prompt is known by its first 32 KiB: hashing takes some 0.8 us a block."""
DIGEST_BYTES = 8
TOKEN_BYTES = 4


class Chain(NamedTuple):
    """`blocks` are digests, the first block first. `size` is that of the whole prompt in bytes."""

    blocks: tuple[bytes, ...] = ()
    size: int = 0

    def tokens(self, blocks: int, prompt_tokens: int) -> int:
        """How many tokens of the prompt lie in its first `blocks`. Never all of them: an engine
        computes the last one for its logits."""
        if not blocks:
            return 0
        return min(prompt_tokens - 1, prompt_tokens * blocks * BLOCK_BYTES // self.size)


NO_CHAIN = Chain()


class Beginning(NamedTuple):
    """By what calls belong together: how the prompt begins, and a hint of the caller's. Both count
    within the organization that is the salt."""

    chain: Chain
    hint: str
    salt: str
    mark: Chain = NO_CHAIN
    """Of the hint alone, as if a prompt began with it."""

    @property
    def chains(self) -> Sequence[Chain]:
        """Those that have a first block."""
        return [each for each in (self.chain, self.mark) if each.blocks]


NO_BEGINNING = Beginning(NO_CHAIN, "", "")


def chain_of(prompt: bytes, salt: str) -> Chain:
    """The chain of a prompt under a tenant's salt. A last block that is not whole is left out."""
    digest = _salted(salt, b"sluice.prefix")
    blocks = []
    for number in range(min(len(prompt) // BLOCK_BYTES, BLOCKS_MAX)):
        start = number * BLOCK_BYTES
        digest.update(prompt[start : start + BLOCK_BYTES])
        blocks.append(digest.digest())
    return Chain(tuple(blocks), len(prompt))


def mark_of(hint: str, salt: str) -> Chain:
    """The one block of a hint under a tenant's salt. It is a block of no prompt."""
    digest = _salted(salt, b"sluice.hint")
    digest.update(hint.encode("utf-8", "replace"))
    return Chain((digest.digest(),), 0)


def _salted(salt: str, person: bytes) -> blake2b:
    digest = blake2b(salt.encode(), digest_size=DIGEST_BYTES, person=person)
    digest.update(b"\0")
    return digest
