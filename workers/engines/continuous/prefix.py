"""Which blocks of prompt are already computed. An index from chained, salted hashes to block
numbers with least-recently-used eviction; it holds no tensors. Guards two laws: a match is always a
true common prefix under the same salt, and free plus used blocks are the capacity."""

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
        """Blocks that hold the longest known prefix. Never the whole sequence: its last token is
        left to compute, because its logits are wanted."""
        found = []
        for digest in self._chain(salt, tokens[: len(tokens) - 1]):
            if digest not in self._used:
                break
            found.append(digest)
        self._touch(found)
        return [self._used[digest] for digest in found]

    def insert(self, salt: str, tokens: Sequence[int]) -> list[Placement]:
        """Make every whole block of `tokens` known; returns the ones that are new. A chain longer
        than the capacity is kept from its start as far as it goes, for a block without its parent
        is never found."""
        chain = list(self._chain(salt, tokens))
        kept = set(chain)
        placements = []
        for number, digest in enumerate(chain):
            if digest in self._used:
                continue
            block = self._take(kept)
            if block is None:
                del chain[number:]
                break
            self._used[digest] = block
            placements.append(Placement(block, number * self.block_tokens))
        self._touch(chain)
        return placements

    def _take(self, kept: set[bytes]) -> int | None:
        if self._free:
            return self._free.pop()
        victim = next((digest for digest in self._used if digest not in kept), None)
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
