"""The blocks of prompts that are computed already. It is an index from chained, salted hashes to
block numbers with least-recently-used eviction, and holds no tensors. Guards two laws: a match is
always a true common prefix under the same salt, and free plus used blocks are the capacity."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Placement:
    """A block that the caller must now fill with the state of tokens `start : start +
    block_tokens`."""

    block: int
    start: int


class PrefixIndex:
    def __init__(self, *, blocks: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.tokens_max = blocks * block_tokens
        self._used: OrderedDict[bytes, int] = (
            OrderedDict()
        )  # digest -> block, least recently used first
        self._free = list(range(blocks))

    def __len__(self) -> int:
        return len(self._used)

    @property
    def free(self) -> int:
        return len(self._free)

    def match(self, salt: str, tokens: Sequence[int]) -> list[int]:
        """Blocks that hold the longest known prefix. They never hold the whole sequence: its last
        token is left to compute, because its logits are needed."""
        digests = []
        for digest in self._chain(salt, tokens[: len(tokens) - 1]):
            if digest not in self._used:
                break
            digests.append(digest)
        self._touch(digests)
        return [self._used[digest] for digest in digests]

    def insert(self, salt: str, tokens: Sequence[int]) -> list[Placement]:
        """Make every whole block of `tokens` known. Returns the blocks that are new. Of a chain
        that is longer than the capacity, the beginning is kept, because a block without its parent
        is never matched."""
        chain = list(self._chain(salt, tokens))
        chain_digests = set(chain)
        placements = []
        for number, digest in enumerate(chain):
            if digest in self._used:
                continue
            block = self._take(chain_digests)
            if block is None:
                del chain[number:]
                break
            self._used[digest] = block
            placements.append(Placement(block, number * self.block_tokens))
        self._touch(chain)
        return placements

    def _take(self, chain_digests: set[bytes]) -> int | None:
        if self._free:
            return self._free.pop()
        victim = next((digest for digest in self._used if digest not in chain_digests), None)
        return None if victim is None else self._used.pop(victim)

    def _touch(self, chain: list[bytes]) -> None:
        # A chain's start is touched last and so evicted last: what follows is worthless alone.
        for digest in reversed(chain):
            self._used.move_to_end(digest)

    def _chain(self, salt: str, tokens: Sequence[int]) -> Iterator[bytes]:
        digest = blake2b(salt.encode(), digest_size=16).digest()
        for start in range(0, len(tokens) - self.block_tokens + 1, self.block_tokens):
            block = array("q", tokens[start : start + self.block_tokens]).tobytes()
            digest = blake2b(digest + block, digest_size=16).digest()
            yield digest
