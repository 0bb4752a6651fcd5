"""Which beginnings of prompts each place has computed lately: a bounded, least recently used list
of blocks a place. It is what a gateway expects of caches that it cannot see. No input or output.

A place is a replica, which keeps what it has room for, or a server outside, which keeps a prompt
until some time after its last use.
"""

from collections import OrderedDict
from collections.abc import Collection
from math import inf
from typing import Final

from routing.replicas.blocks import BLOCK_TOKENS, Chain

BLOCKS_DEFAULT = 4096
"""Of a replica that does not say how large its cache is: 262,144 tokens."""
BLOCKS_MAX_EACH = 16_384
"""Of any place: some 2 MiB of a gateway's memory."""
NOBODY: Final = frozenset[str]()


class KnownPrefixes:
    def __init__(self) -> None:
        self._of: dict[str, OrderedDict[bytes, float]] = {}
        self._holders: dict[bytes, set[str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def holders(self, block: bytes) -> Collection[str]:
        """The places that have the first block of a prompt."""
        return self._holders.get(block, NOBODY)

    def blocks_known(self, place: str, chain: Chain, now_s: float = 0.0) -> int:
        """How many first blocks of a prompt a place is expected to have."""
        known = self._of.get(place)
        if known is None:
            return 0
        count = 0
        for block in chain.blocks:
            if known.get(block, -inf) <= now_s:
                break
            count += 1
        return count

    def remember(
        self, place: str, chain: Chain, cache_tokens: int = 0, until_s: float = inf
    ) -> None:
        """A place has computed this prompt, and keeps it until then. `cache_tokens` is the room for
        prefixes there, 0 where it is not known. Of a chain that is longer than the room its
        beginning is kept."""
        if not chain.blocks:
            return
        known = self._of.setdefault(place, OrderedDict())
        for block in reversed(chain.blocks):  # a start is worth most: nothing matches without it
            known[block] = until_s
            known.move_to_end(block)
        self._holders.setdefault(chain.blocks[0], set()).add(place)
        room = min(cache_tokens // BLOCK_TOKENS or BLOCKS_DEFAULT, BLOCKS_MAX_EACH)
        while len(known) > room:
            self._let_go(place, known.popitem(last=False)[0])

    def keep_only(self, places: Collection[str]) -> None:
        """Forget places that are gone."""
        for gone in self._of.keys() - set(places):
            for block in self._of.pop(gone):
                self._let_go(gone, block)

    def _let_go(self, place: str, block: bytes) -> None:
        holders = self._holders.get(block)
        if holders is not None:
            holders.discard(place)
            if not holders:
                del self._holders[block]
